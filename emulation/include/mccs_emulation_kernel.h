/* Host versions of CUDA kernels, for the emulation.
 *
 * The emulation cannot execute GPU instructions. To run a kernel, write a host function that does
 * the kernel's work and register it under the kernel's (mangled) name:
 *
 *   static void Scale(const MccsEmulatedLaunch* launch, void* const* arguments) {
 *     float* data = *(float**)arguments[0];
 *     size_t count = *(size_t*)arguments[1];
 *     ...
 *   }
 *   static const uint32_t kScaleArguments[] = {sizeof(float*), sizeof(size_t)};
 *   static const MccsEmulatedKernel kKernels[] = {
 *       {sizeof(MccsEmulatedKernel), "_Z5scalePfm", Scale, 2, kScaleArguments, 0}};
 *   const MccsEmulatedKernel* mccsEmulatedKernels(size_t* count) { *count = 1; return kKernels; }
 *
 * Build it as a shared object and list that in MCCS_EMULATION_KERNELS (separated by colons); the
 * emulation loads it at the first launch. Or call mccsEmulationRegisterKernel of libcuda.so.1.
 *
 * A host version runs once per launch, for the whole grid, when its stream reaches the launch. It
 * runs on the thread that waits for the stream or on a thread of the emulation. It must not call
 * CUDA. It reads copies of its arguments that are made at the launch, hence the declared sizes.
 */
#ifndef MCCS_EMULATION_KERNEL_H_
#define MCCS_EMULATION_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MccsEmulatedLaunch {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes; /* dynamic shared memory of the launch */
  int32_t device;        /* ordinal that the program sees */
} MccsEmulatedLaunch;

typedef void (*MccsEmulatedKernelFunction)(const MccsEmulatedLaunch* launch,
                                           void* const* arguments);

typedef struct MccsEmulatedKernel {
  uint32_t struct_bytes; /* sizeof(MccsEmulatedKernel) */
  const char* name;      /* the kernel's symbol, mangled as nvcc does */
  MccsEmulatedKernelFunction run;
  uint32_t argument_count;
  const uint32_t* argument_bytes; /* argument_count sizes */
  uint32_t blocking; /* not 0: the launch blocks until it and all earlier work of its stream ran */
} MccsEmulatedKernel;

/* The entry point of a shared object in MCCS_EMULATION_KERNELS. The table stays valid forever. */
typedef const MccsEmulatedKernel* (*MccsEmulatedKernelsFunction)(size_t* count);
#define MCCS_EMULATED_KERNELS_ENTRY "mccsEmulatedKernels"

/* Registers a host version from within the process. It replaces an earlier one of the same name.
 * Returns 0, or -1 if the description is malformed. Exported by the emulation's libcuda.so.1.
 * THREAD: any. `kernel` and everything it points to are copied. */
int mccsEmulationRegisterKernel(const MccsEmulatedKernel* kernel);

/* A host version calls this when an assertion of the kernel fails. As on a GPU, the process cannot
 * use CUDA from then on: every runtime call that needs a context returns cudaErrorAssert.
 * THREAD: any. */
void mccsEmulationFailAssertion(void);
/* Returns whether an assertion has failed. */
int mccsEmulationAssertionFailed(void);

#ifdef __cplusplus
}
#endif

#endif /* MCCS_EMULATION_KERNEL_H_ */
