// Work of streams and graphs, made from a program's requests: copies, fills, kernel launches, and
// words that are written and waited for.
#ifndef MCCS_EMULATION_DRIVER_WORK_REQUESTS_H_
#define MCCS_EMULATION_DRIVER_WORK_REQUESTS_H_

#include <optional>

#include "emulation/core/graph.h"
#include "emulation/driver/entry.h"

namespace mccs::emulation {

// The required kind of memory of one end of a copy. kAny: device or host, depending on the address.
enum class CopyEnd { kDevice, kHost, kAny };

struct CopyRequest {
  CopyRows rows;
  CopyEnd to = CopyEnd::kAny;
  CopyEnd from = CopyEnd::kAny;
  bool asynchronous = true;
};

// Checks that both ends are memory of the requested kinds.
CUresult CheckCopy(const CallContext& session, const CopyRequest& request);
CUresult CheckFill(const CallContext& session, const FillRows& fill);

// Converts a description in two or three dimensions. Empty if rows cannot represent it: arrays,
// which the emulation does not have, and planes with gaps between them.
std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY2D& copy);
std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY3D& copy);

// Enqueues a copy and blocks where CUDA does:
// synchronous functions block, except from device to device;
// asynchronous functions block when they write the program's pageable memory. They copy pageable
// source memory first, so that the program may reuse it at once.
// In a capturing stream the copy becomes a node, and each launch accesses the memory's contents at
// that time.
CUresult SubmitCopy(CUstream stream, CopyRequest request);

// Enqueues a fill. The synchronous functions block if it fills host memory.
CUresult SubmitFill(CUstream stream, FillRows fill, bool asynchronous);

// ---- Launches and words ---------------------------------------------------------------------

// Finds the kernel's host version and copies the arguments. `session.gpu`: where it will run.
CUresult PrepareCall(const CallContext& session, CUfunction function, MccsEmulatedLaunch launch,
                     void** parameters, void** extra, std::optional<KernelCall>* call);

// Checks the operations of a batch and converts them to work.
CUresult MakeWordOperations(const CallContext& session, unsigned count,
                            const CUstreamBatchMemOpParams* requested, unsigned flags,
                            WordOperations* operations);

// Makes the wait of a kernel that watches a word of 64 bits until it has reached `value`.
CUresult MakeWatch(const CallContext& session, CUdeviceptr address, uint64_t value,
                   WaitWord* watch);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_WORK_REQUESTS_H_
