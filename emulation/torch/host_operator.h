// Runs one operator of PyTorch, called with CUDA tensors, on the host.
#ifndef MCCS_EMULATION_TORCH_HOST_OPERATOR_H_
#define MCCS_EMULATION_TORCH_HOST_OPERATOR_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// The dispatcher calls this in place of a CUDA kernel. It waits for the current stream of each
// device of the call, so that the operator runs after earlier work. Then it runs the CPU kernel
// over aliases of the arguments. Unlike a GPU it does not run asynchronously: if a stream blocks
// forever, so does the call.
//
// THREAD: any. Errors: c10::Error, as the dispatcher expects: from the CPU kernel, for tensors of
// several devices, and during a graph capture, which cannot contain operators that run at once.
void RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_HOST_OPERATOR_H_
