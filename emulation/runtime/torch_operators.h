// Finds PyTorch in the process and gives its operators host versions (emulation/torch).
#ifndef MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_
#define MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_

namespace mccs::emulation {

// Returns true if PyTorch is not loaded, or if its operators run on the host from now on. Returns
// false, after a line on stderr, if PyTorch is loaded and its operators would fail.
// THREAD: any. Searches again until it has found PyTorch, which may be loaded later.
bool StartTorchOperators();

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_RUNTIME_TORCH_OPERATORS_H_
