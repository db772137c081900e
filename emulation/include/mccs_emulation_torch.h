/* Between the emulated CUDA runtime and emulation/torch, which runs PyTorch's operators on the
 * host. The runtime looks for PyTorch in its process when a program first asks how many GPUs there
 * are, and then loads MCCS_EMULATION_TORCH_LIBRARY from the folder that it lies in itself. */
#ifndef MCCS_EMULATION_TORCH_H_
#define MCCS_EMULATION_TORCH_H_

#ifdef __cplusplus
extern "C" {
#endif

#define MCCS_EMULATION_TORCH_LIBRARY "libmccs_torch.so"
#define MCCS_EMULATION_TORCH_START "mccsEmulationStartTorch"

/* Redirects PyTorch's operators, for the rest of the process. Returns 0, or -1 after a line on
 * stderr. Called once. */
int mccsEmulationStartTorch(void);

#ifdef __cplusplus
}
#endif

#endif /* MCCS_EMULATION_TORCH_H_ */
