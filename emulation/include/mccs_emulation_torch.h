/* Interface between the emulated CUDA runtime and emulation/torch, which runs PyTorch's operators
 * on the host. When a program first asks for the number of GPUs, the runtime looks for PyTorch in
 * its process. If it is there, the runtime loads MCCS_EMULATION_TORCH_LIBRARY from its own
 * directory. */
#ifndef MCCS_EMULATION_TORCH_H_
#define MCCS_EMULATION_TORCH_H_

#ifdef __cplusplus
extern "C" {
#endif

#define MCCS_EMULATION_TORCH_LIBRARY "libmccs_torch.so"
#define MCCS_EMULATION_TORCH_START "mccsEmulationStartTorch"

/* Redirects PyTorch's operators, for the rest of the process. Returns 0, or prints a line to stderr
 * and returns -1. Called once. */
int mccsEmulationStartTorch(void);

#ifdef __cplusplus
}
#endif

#endif /* MCCS_EMULATION_TORCH_H_ */
