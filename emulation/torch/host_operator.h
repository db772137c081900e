// Runs one operator of PyTorch, called with CUDA tensors, on the host.
#ifndef MCCS_EMULATION_TORCH_HOST_OPERATOR_H_
#define MCCS_EMULATION_TORCH_HOST_OPERATOR_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// What the dispatcher calls in place of a CUDA kernel: waits for the current stream of each device
// of the call, so that the operator comes after what was enqueued before it, and runs the CPU
// kernel at once over aliases of the arguments. It does not run ahead as a GPU would: a stream that
// waits for ever is waited for.
//
// THREAD: any. Errors: c10::Error, as the dispatcher expects it: of the CPU kernel, for tensors of
// several devices, and during the capture of a graph, which cannot hold what runs at once.
void RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_HOST_OPERATOR_H_
