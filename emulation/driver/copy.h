// Copies and fills as streams do them.
#ifndef MCCS_EMULATION_DRIVER_COPY_H_
#define MCCS_EMULATION_DRIVER_COPY_H_

#include "emulation/driver/entry.h"

namespace mccs::emulation {

// What an end of a copy has to be. kAny: device or host, as its address says.
enum class End { kDevice, kHost, kAny };

struct CopyRequest {
  CopyRows rows;
  End to = End::kAny;
  End from = End::kAny;
  bool asynchronous = true;
};

// Enqueues a copy and waits for it where CUDA does:
//   synchronous functions   wait, except from device to device
//   asynchronous functions  wait when they fill the program's pageable memory; pageable memory that
//                           they read is copied first, so that the program may reuse it at once
CUresult SubmitCopy(CUstream stream, CopyRequest request);

// Enqueues a fill. The synchronous functions wait for it where it fills host memory.
CUresult SubmitFill(CUstream stream, FillRows fill, bool asynchronous);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_COPY_H_
