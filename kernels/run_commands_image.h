// The image of mccs_run_commands for all generations of GPUs, for cuLibraryLoadData. mccsd contains
// it.
#ifndef MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_
#define MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_

extern "C" {
extern const unsigned char mccs_run_commands_image[];
extern const unsigned char mccs_run_commands_image_end[];
extern const int mccs_run_commands_cuda_version;      // of the compiler: 13000
extern const char mccs_run_commands_architectures[];  // "sm_80, …", zero-terminated
}

#endif  // MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_
