// What tells a stream from every other, also from one that has its handle later.
#ifndef MCCS_SHIM_STREAM_KEY_H_
#define MCCS_SHIM_STREAM_KEY_H_

#include <cuda.h>

#include <cstdint>

#include "shim/driver_api.h"

namespace mccs::shim {

// CUDA's number of the stream, which is never used twice, else the best that a handle can do. The
// per-thread default stream is another one for each calling thread.
uint64_t StreamKey(const DriverApi& driver, CUstream stream);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_STREAM_KEY_H_
