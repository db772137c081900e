// Memory that the daemon asks this process to map for its kernels: buffers of other ranks of a
// communicator on this host, those of its own other GPUs, and the daemon's. Each GPU has its own
// mappings. Answers MapMemory, UnmapMemory and CopyMemory (proto/shim_control.h).
//
// THREAD: any; the daemon's messages arrive on the connection's reader thread.
#ifndef MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_
#define MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "absl/status/status.h"
#include "base/shared_region.h"
#include "shim/buffers/memory_closer.h"
#include "shim/buffers/memory_copier.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/daemon_client.h"

namespace mccs::shim {

class KernelMemory {
 public:
  // LIFETIME: driver and client outlive it.
  KernelMemory(const DriverApi& driver, DaemonClient& client);
  ~KernelMemory();
  KernelMemory(const KernelMemory&) = delete;

  // The context in which memory is mapped for kernels on this GPU: that of its first communicator.
  // Before it is set, no memory can be mapped for them.
  void SetContext(const DeviceBinding& device);

 private:
  void OnMessage(Reply message);
  // Handle a request of the daemon. REQUIRES: mutex_ is held.
  void OnMapMemory(const wire::MapMemory& request, Reply& message);
  void OnUnmapMemory(const wire::UnmapMemory& request);
  void OnCopyMemory(const wire::CopyMemory& request);
  // Of this process, on another GPU: gives the GPU of the current context access. It stays.
  absl::Status AllowOwn(const wire::MapMemory& request);
  absl::Status OpenIpc(const wire::MapMemory& request, MemoryCloser::Opened* opened);
  absl::Status Map(const wire::MapMemory& request, Reply& message, MemoryCloser::Opened* opened,
                   CUdeviceptr* address);

  const DriverApi& driver_;
  DaemonClient& client_;
  const std::shared_ptr<MemoryCloser> closer_;  // also the copier's thread may use it
  MemoryCopier copier_;
  std::mutex mutex_;
  std::unordered_map<int, CUcontext> contexts_;                  // by ordinal
  std::unordered_map<uint64_t, MemoryCloser::Opened> mappings_;  // by number
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_
