/* Host versions of CUDA kernels, for the emulation.
 *
 * The emulation has no instructions for a GPU. A kernel runs when somebody has written what it does
 * as a function for the host and registered it under the kernel's (mangled) name:
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
 * Built as a shared object and named in MCCS_EMULATION_KERNELS (several are separated by colons),
 * it is loaded at the first launch; or a program calls mccsEmulationRegisterKernel of libcuda.so.1.
 *
 * A host version runs once per launch, for the whole grid, when its stream reaches it: on the
 * thread that waits for the stream or on one of the emulation's own. It calls no CUDA function and
 * reads its arguments from copies made at the launch, which is why their sizes are declared.
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
  uint32_t shared_bytes; /* dynamic shared memory asked for by the launch */
  int32_t device;        /* the ordinal that the program sees */
} MccsEmulatedLaunch;

typedef void (*MccsEmulatedKernelFunction)(const MccsEmulatedLaunch* launch,
                                           void* const* arguments);

typedef struct MccsEmulatedKernel {
  uint32_t struct_bytes; /* sizeof(MccsEmulatedKernel) */
  const char* name;      /* the kernel's symbol, mangled as nvcc does */
  MccsEmulatedKernelFunction run;
  uint32_t argument_count;
  const uint32_t* argument_bytes; /* argument_count sizes */
  uint32_t waited; /* not 0: the launch returns when it has run, and all before it on its stream */
} MccsEmulatedKernel;

/* The entry point of a shared object in MCCS_EMULATION_KERNELS. The table stays valid for ever. */
typedef const MccsEmulatedKernel* (*MccsEmulatedKernelsFunction)(size_t* count);
#define MCCS_EMULATED_KERNELS_ENTRY "mccsEmulatedKernels"

/* Registers one host version from within the process; a later one of the same name replaces it.
 * Returns 0, or -1 where the description is malformed. Exported by the emulation's libcuda.so.1.
 * THREAD: any. `kernel` and what it points to are copied. */
int mccsEmulationRegisterKernel(const MccsEmulatedKernel* kernel);

/* For host versions: an assertion of the kernel has failed. As on a GPU the process can do nothing
 * with CUDA any more: each call of the runtime that needs a context is cudaErrorAssert from then
 * on. THREAD: any. */
void mccsEmulationFailAssertion(void);
/* Whether that has happened. */
int mccsEmulationAssertionFailed(void);

#ifdef __cplusplus
}
#endif

#endif /* MCCS_EMULATION_KERNEL_H_ */
