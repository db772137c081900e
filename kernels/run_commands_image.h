// The image of mccs_run_commands for all generations of GPUs, for cuLibraryLoadData.
#ifndef MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_
#define MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_

extern "C" const unsigned char mccs_run_commands_image[];

#endif  // MCCS_KERNELS_RUN_COMMANDS_IMAGE_H_
