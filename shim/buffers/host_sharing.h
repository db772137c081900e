// Pinned memory of this host that the daemon maps and this process's GPUs reach: it carries what
// the daemon has to read or write itself, if it maps no GPU memory.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_HOST_SHARING_H_
#define MCCS_SHIM_BUFFERS_HOST_SHARING_H_

#include <cuda.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/shared_region.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/daemon_client.h"

namespace mccs::shim {

// LIFETIME: without EndSharing, the destructor keeps the memory for the rest of the process, because
// the daemon or streams may still use it.
class SharedHostMemory {
 public:
  SharedHostMemory() = default;
  SharedHostMemory(SharedHostMemory&&) = default;
  SharedHostMemory& operator=(SharedHostMemory&&) = delete;
  ~SharedHostMemory();

  SharedRegion memory;
  CUdeviceptr address = 0;  // for the GPUs of this process
  uint32_t buffer = 0;      // the daemon's id
};

// New memory. Errors: kUnknown (a CUDA error), kResourceExhausted, those of the daemon.
// REQUIRES: a context is current, in a relaxed capture.
absl::StatusOr<SharedHostMemory> ShareHostMemory(const DriverApi& driver, DaemonClient& client,
                                                 uint64_t bytes);

// Ends the daemon's access and frees the memory. If the daemon does not answer in time, the memory
// stays. REQUIRES: as above; no stream uses it any more.
void EndSharing(const DriverApi& driver, DaemonClient& client, SharedHostMemory shared);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_HOST_SHARING_H_
