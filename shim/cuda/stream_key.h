// Identifies a stream, also among streams that reuse its handle.
#ifndef MCCS_SHIM_CUDA_STREAM_KEY_H_
#define MCCS_SHIM_CUDA_STREAM_KEY_H_

#include <cuda.h>

#include <cstdint>

#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// CUDA's number of the stream, which is never reused; without it, the handle. The per-thread
// default stream differs for each calling thread.
uint64_t StreamKey(const DriverApi& driver, CUstream stream);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_STREAM_KEY_H_
