// copy_ between two tensors that one block of bytes describes, on the stream.
#ifndef MCCS_EMULATION_TORCH_PLAIN_COPY_H_
#define MCCS_EMULATION_TORCH_PLAIN_COPY_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// What the dispatcher calls for aten::copy_. Where a GPU's program would need no kernel but
// cudaMemcpyAsync (one GPU, one type, the same dense layout), neither does this one: the copy is
// enqueued on the current stream, and the program goes on. Any other copy is a RunOnHost.
//
// It matters to programs that copy results of a collective that may never end and look at a clock
// meanwhile (DistributedDataParallel does when it is made).
//
// THREAD: any. Errors: c10::Error, of RunOnHost or the runtime.
void CopyOnStream(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_PLAIN_COPY_H_
