// Selects the operators of PyTorch that run on the host.
#ifndef MCCS_EMULATION_TORCH_REGISTRATION_H_
#define MCCS_EMULATION_TORCH_REGISTRATION_H_

namespace mccs::torch_on_host {

// Redirects the operators under the dispatcher's CUDA key. Turns off features that bypass the
// dispatcher: cuDNN, and fused attention until a program selects it. Once per process.
//
// Not redirected: operators that allocate memory or create views (they launch no kernel), and
// operators that exist only for CUDA and are not composed here. The latter fail with a message,
// because their kernels have no host version.
void RedirectOperators();

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_REGISTRATION_H_
