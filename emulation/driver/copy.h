// Copies and fills as streams and graphs do them.
#ifndef MCCS_EMULATION_DRIVER_COPY_H_
#define MCCS_EMULATION_DRIVER_COPY_H_

#include <optional>

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

// Whether both ends are memory of the kind that the request says.
CUresult CheckCopy(const Session& session, const CopyRequest& request);
CUresult CheckFill(const Session& session, const FillRows& fill);

// What a description in two or three dimensions asks for. Empty where rows do not suffice: arrays,
// which the emulation has none of, and planes apart from each other.
std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY2D& copy);
std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY3D& copy);

// Enqueues a copy and waits for it where CUDA does:
//   synchronous functions   wait, except from device to device
//   asynchronous functions  wait when they fill the program's pageable memory; pageable memory that
//                           they read is copied first, so that the program may reuse it at once
// In a capturing stream it becomes a node, and each launch reads and writes what is there then.
CUresult SubmitCopy(CUstream stream, CopyRequest request);

// Enqueues a fill. The synchronous functions wait for it where it fills host memory.
CUresult SubmitFill(CUstream stream, FillRows fill, bool asynchronous);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_COPY_H_
