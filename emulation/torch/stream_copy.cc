#include "emulation/torch/stream_copy.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "emulation/torch/host_operator.h"

namespace mccs::torch_on_host {
namespace {

bool IsPlain(const at::Tensor& to, const at::Tensor& from) {
  return to.is_cuda() && from.is_cuda() && to.device() == from.device() &&
         to.layout() == c10::kStrided && from.layout() == c10::kStrided &&
         to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
         to.strides() == from.strides() && to.is_non_overlapping_and_dense() &&
         to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  const char* const first = static_cast<const char*>(a.const_data_ptr());
  const char* const second = static_cast<const char*>(b.const_data_ptr());
  return first < second + b.nbytes() && second < first + a.nbytes();
}

}  // namespace

void CopyOnStream(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor to = (*stack)[first].toTensor();
  const at::Tensor from = (*stack)[first + 1].toTensor();
  if (!IsPlain(to, from) || Overlap(to, from)) {
    RunOnHost(op, keys, stack);
    return;
  }
  const c10::cuda::CUDAGuard on_its_gpu(to.device());
  C10_CUDA_CHECK(cudaMemcpyAsync(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes(),
                                 cudaMemcpyDeviceToDevice, c10::cuda::getCurrentCUDAStream()));
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, to);
}

}  // namespace mccs::torch_on_host
