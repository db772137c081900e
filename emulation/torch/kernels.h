// Host versions of the kernels that PyTorch launches without its dispatcher.
#ifndef MCCS_EMULATION_TORCH_KERNELS_H_
#define MCCS_EMULATION_TORCH_KERNELS_H_

namespace mccs::torch_on_host {

// Registers them with the emulation: the NaN check of the NCCL process group (TORCH_NCCL_NAN_CHECK)
// and torch.cuda._sleep. Returns false if the emulation rejects one.
bool RegisterKernels();

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_KERNELS_H_
