// Which of PyTorch's operators run on the host.
#ifndef MCCS_EMULATION_TORCH_REGISTRATION_H_
#define MCCS_EMULATION_TORCH_REGISTRATION_H_

namespace mccs::torch_on_host {

// Redirects the operators under the dispatcher's CUDA key, and turns off what goes past the
// dispatcher: cuDNN, and fused attention until a program chooses it. Once per process.
//
// What stays as it is: operators that hand out memory or make views (they launch no kernel), and
// those that exist for CUDA only and are not composed here; their kernels have no host version, so
// that they fail and say so.
void RedirectOperators();

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_REGISTRATION_H_
