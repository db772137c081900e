// The compiled kernel of await_fence.cu, for all GPUs of CUDA 13, as cuLibraryLoadData takes it.
#ifndef MCCS_SHIM_KERNELS_AWAIT_FENCE_IMAGE_H_
#define MCCS_SHIM_KERNELS_AWAIT_FENCE_IMAGE_H_

extern "C" const unsigned char mccs_await_fence_image[];

#endif  // MCCS_SHIM_KERNELS_AWAIT_FENCE_IMAGE_H_
