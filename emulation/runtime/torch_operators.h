// Finds PyTorch in the process and gives its operators host versions (emulation/torch).
#ifndef MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_
#define MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_

namespace mccs::emulation {

// True where there is no PyTorch, or its operators run on the host from now on. False after a line
// on stderr: then there is a PyTorch whose operators could do nothing but fail.
// THREAD: any. It looks anew until it has found PyTorch, which may be loaded later.
bool StartTorchOperators();

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_
