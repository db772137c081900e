// Operators that PyTorch has for CUDA only, composed of others.
//
// The component operators are called with CUDA tensors, so each runs on the host like any operator.
// Narrower inputs are accumulated in float32, as in CUDA's kernels.
#ifndef MCCS_EMULATION_TORCH_COMPOSED_H_
#define MCCS_EMULATION_TORCH_COMPOSED_H_

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace mccs::torch_on_host {

// The type in which a CUDA kernel accumulates.
inline c10::ScalarType AccumulationType(const at::Tensor& tensor) {
  return tensor.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
}

// Each registers its operators under the dispatcher's CUDA key.
void RegisterDropout(torch::Library* library);
void RegisterFusedAttention(torch::Library* library);   // scaled_dot_product_attention
void RegisterRecurrentCells(torch::Library* library);   // nn.LSTM and nn.GRU without cuDNN
void RegisterRmsNormBackward(torch::Library* library);  // nn.RMSNorm
void RegisterSyncBatchNorm(torch::Library* library);    // nn.SyncBatchNorm

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_COMPOSED_H_
