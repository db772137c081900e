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
 *
 * A kernel that waits for other processes, or for kernels of other streams, is registered as
 * resumable (below). It runs in short pieces, and the emulation waits between them, so any number
 * of such kernels run at once without a thread each.
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

/* The entry point of a shared object in MCCS_EMULATION_KERNELS. Tables stay valid forever. */
typedef const MccsEmulatedKernel* (*MccsEmulatedKernelsFunction)(size_t* count);
#define MCCS_EMULATED_KERNELS_ENTRY "mccsEmulatedKernels"

/* Registers a host version from within the process. It replaces an earlier one of the same name.
 * Returns 0, or -1 if the description is malformed. Exported by the emulation's libcuda.so.1.
 * THREAD: any. `kernel` and everything it points to are copied. */
int mccsEmulationRegisterKernel(const MccsEmulatedKernel* kernel);

/* ---- Resumable kernels ----------------------------------------------------------------------- */

/* Results of MccsEmulatedResumableKernel::advance. */
#define MCCS_EMULATED_FINISHED 0 /* the kernel is done */
#define MCCS_EMULATED_AGAIN 1    /* more work is ready */
#define MCCS_EMULATED_WAITING 2  /* no work is ready until `wait` is over */

/* The wait of a kernel: until the value of a FenceLine (proto/fence_page.h) has reached `value`, as
 * cuStreamWaitValue64 compares by GEQ; the poison has reached every value. */
typedef struct MccsEmulatedWait {
  const uint64_t* word; /* value of a line in a fence page that is registered with CUDA */
  uint64_t value;
} MccsEmulatedWait;

/* A kernel that runs in pieces. The first piece follows when the launch's turn in its stream has
 * come. From then on, as on a GPU, its hardware queue continues with the work behind it. Later work
 * of its stream waits for the kernel's end.
 *
 * One launch (or one replay of a graph's node) is one run:
 *
 *   begin ─► advance ─► … ─► advance = FINISHED ─► end
 *
 * THREAD: all calls for one run are ordered, each may come from another thread: of the program
 * (inside a call that synchronizes or queries) or of the emulation. Calls for different runs are
 * concurrent. No call may use CUDA, block, or end the process.
 * LIFETIME: `launch` and `arguments` are valid until `end` returns. A line that a run waits for must
 * stay mapped until the next call for this run.
 * When the process exits, runs stop as they are: neither `advance` nor `end` is called from then
 * on. In the child of a fork no run continues. */
typedef struct MccsEmulatedResumableKernel {
  uint32_t struct_bytes; /* sizeof(MccsEmulatedResumableKernel) */
  const char* name;      /* the kernel's symbol, mangled as nvcc does */
  /* Returns the state of a new run, which the other functions get; may be NULL. */
  void* (*begin)(const MccsEmulatedLaunch* launch, void* const* arguments);
  /* Does a piece of work: tens of microseconds, 256 KiB moved. Returns one of the results above,
   * and for WAITING fills in `*wait`. It is also called before the wait is over, and must then
   * return WAITING again. */
  int (*advance)(void* run, MccsEmulatedWait* wait);
  void (*end)(void* run);
  uint32_t argument_count;
  const uint32_t* argument_bytes; /* argument_count sizes */
  uint32_t blocking; /* not 0: the launch blocks until it and all earlier work of its stream ran */
} MccsEmulatedResumableKernel;

/* A second, optional entry point of a shared object in MCCS_EMULATION_KERNELS. */
typedef const MccsEmulatedResumableKernel* (*MccsEmulatedResumableKernelsFunction)(size_t* count);
#define MCCS_EMULATED_RESUMABLE_KERNELS_ENTRY "mccsEmulatedResumableKernels"

/* As mccsEmulationRegisterKernel. Either kind replaces the other under the same name. */
int mccsEmulationRegisterResumableKernel(const MccsEmulatedResumableKernel* kernel);

/* ---------------------------------------------------------------------------------------------- */

/* Number of launches of a kernel in this process, without those of captured work.
 * THREAD: any. */
uint64_t mccsEmulationLaunches(const char* name);

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
