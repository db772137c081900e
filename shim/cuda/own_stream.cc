#include "shim/cuda/own_stream.h"

#include <algorithm>

namespace mccs::shim {

CUresult CreateOwnStream(const DriverApi& driver, OwnStreamUse use, CUstream* stream) {
  int least = 0, greatest = 0;  // a lower number is a greater priority
  if (const CUresult error = driver.CtxGetStreamPriorityRange(&least, &greatest);
      error != CUDA_SUCCESS) {
    return error;
  }
  const int below_greatest = std::min(greatest + 1, least);
  return driver.StreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING,
                                         use == OwnStreamUse::kCopies ? greatest : below_greatest);
}

}  // namespace mccs::shim
