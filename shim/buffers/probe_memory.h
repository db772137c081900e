// A small allocation on each GPU that the daemon asks other processes to map for their kernels. So
// it finds out, before the first collective, which of them can use memory of this GPU.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_PROBE_MEMORY_H_
#define MCCS_SHIM_BUFFERS_PROBE_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "shim/cuda/driver_api.h"
#include "shim/daemon/daemon_client.h"

namespace mccs::shim {

class ProbeMemory {
 public:
  // LIFETIME: driver and client outlive it. Its memory stays until the process ends, because other
  // processes may have mapped it: 64 KiB, for which CUDA reserves 2 MiB.
  ProbeMemory(const DriverApi& driver, DaemonClient& client) : driver_(driver), client_(client) {}

  // The daemon's id of the allocation on this GPU, made at the first call; 0: it cannot be shared.
  // Then no memory of cuMemAlloc can, and every call stages its buffers.
  uint32_t BufferOn(const DeviceBinding& device);

 private:
  uint32_t MakeOn(const DeviceBinding& device);

  const DriverApi& driver_;
  DaemonClient& client_;
  std::mutex mutex_;
  std::map<int, uint32_t> buffers_;  // by ordinal
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_PROBE_MEMORY_H_
