// Streams of the library's own, beside the program's.
//
// A GPU maps streams onto a few hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), and work that waits
// blocks all work behind it in its queue. The program's streams may wait for the very work of these
// streams. So these have priorities of their own: a GPU schedules each priority by queues of its
// own (assumed: `cuda_probe`, greatest_priority_beside_waits).
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_OWN_STREAM_H_
#define MCCS_SHIM_CUDA_OWN_STREAM_H_

#include "shim/cuda/driver_api.h"

namespace mccs::shim {

enum class OwnStreamUse {
  // Copies and sets that wait for no other work: the greatest priority.
  kCopies,
  // Kernels behind events of the program's streams: the priority below, so that they block no copy.
  // The program's streams have priority 0 unless it requests others.
  kKernels,
};

// Creates a non-blocking stream in the current context. The error of the call that failed.
CUresult CreateOwnStream(const DriverApi& driver, OwnStreamUse use, CUstream* stream);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_OWN_STREAM_H_
