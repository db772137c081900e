#include "emulation/torch/host_operator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "emulation/torch/aliases.h"
#include "emulation/torch/call_devices.h"
#include "emulation/torch/device_allocation_scope.h"
#include "emulation/torch/random_numbers.h"

namespace mccs::torch_on_host {
namespace {

// Replaces every tensor in `value`, single or in a list, by the result of `change`.
template <typename Change>
void ForTensors(c10::IValue* value, Change change) {
  if (value->isTensor()) {
    *value = change(value->toTensor());
  } else if (value->isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value->toTensorVector()) list.push_back(change(tensor));
    *value = std::move(list);
  } else if (value->isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value->toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    }
    *value = std::move(list);
  }
}

void ToHost(const c10::Argument& declared, c10::IValue* value, Aliases* aliases,
            CallDevices* devices) {
  if (value->isDevice() && value->toDevice().is_cuda()) {
    const c10::Device device = value->toDevice();
    devices->Add(device.has_index() ? device
                                    : c10::Device(c10::kCUDA, c10::cuda::current_device()));
    *value = c10::Device(c10::kCPU);
  } else if (declared.name() == "pin_memory" && value->isBool()) {
    TORCH_CHECK(!value->toBool(), "Only dense CPU tensors can be pinned");
  } else {
    ForTensors(value, [&](const at::Tensor& tensor) {
      devices->Add(tensor, declared.name());
      return aliases->Of(tensor);
    });
  }
}

void AwaitCurrentStreams(const c10::OperatorHandle& op, const CallDevices& devices) {
  for (const c10::Device device : devices.all()) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
    cudaStreamCaptureStatus capturing{};
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
    TORCH_CHECK_NOT_IMPLEMENTED(
        capturing == cudaStreamCaptureStatusNone, op.schema().name(),
        " was called while a CUDA graph is captured: without a GPU, PyTorch's operators run at "
        "once on the host and cannot be captured into a graph; run the model without graphs");
    stream.synchronize();
  }
}

void ToDevice(torch::jit::Stack* stack, size_t first, c10::Device device, Aliases* aliases) {
  for (size_t i = first; i < stack->size(); ++i) {
    ForTensors(&(*stack)[i], [&](const at::Tensor& result) {
      aliases->ExpectResult(result);
      return result;
    });
  }
  for (size_t i = first; i < stack->size(); ++i) {
    ForTensors(&(*stack)[i],
               [&](const at::Tensor& result) { return aliases->Return(result, device); });
  }
}

}  // namespace

void RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  Aliases aliases;
  CallDevices devices(op);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    ToHost(schema.arguments()[i], &(*stack)[first + i], &aliases, &devices);
  }
  devices.Finish();
  TORCH_CHECK(devices.device().has_value(), schema.name(),
              ": cannot run on the host: no argument has a CUDA device");
  AwaitCurrentStreams(op, devices);

  const c10::DeviceGuard device_guard(*devices.device());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  UseHostGenerator(op, *devices.device(), stack->data() + first);
  {
    const DeviceAllocationScope device_allocations;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  aliases.WriteBack();
  ToDevice(stack, stack->size() - schema.returns().size(), *devices.device(), &aliases);
}

}  // namespace mccs::torch_on_host
