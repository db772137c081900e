// copy_ between two tensors of one contiguous block of bytes each, on the stream.
#ifndef MCCS_EMULATION_TORCH_STREAM_COPY_H_
#define MCCS_EMULATION_TORCH_STREAM_COPY_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace mccs::torch_on_host {

// The dispatcher calls this for aten::copy_. CopyOnStream enqueues the copy on the current stream
// and returns if a GPU program would need only cudaMemcpyAsync: one GPU, one type, the same dense
// layout. Any other copy uses RunOnHost.
//
// Programs need this that copy results of a collective that may never end, and check a timeout
// meanwhile (DistributedDataParallel does in its constructor).
//
// THREAD: any. Errors: c10::Error, from RunOnHost or the runtime.
void CopyOnStream(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_STREAM_COPY_H_
