// Memory that the daemon asks this process to map for its kernels: buffers of other ranks of a
// communicator on this host, those of its own other GPUs, and the daemon's. Each GPU has its own
// mappings. Handles MapMemory, UnmapMemory, CopyMemory and
// DropCopy (proto/shim_control.h).
//
// THREAD: any; the daemon's messages arrive on the connection's reader thread.
#ifndef MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_
#define MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "absl/status/status.h"
#include "base/address_range.h"
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

  // The program is about to free memory in the range, or to use it otherwise: waits until no copy
  // that the daemon requested is running into it; logs a warning if one still is after a second.
  // `freed`: it is an allocation, or its first byte; copies into it that have not begun do not
  // begin any more. Those of an ended communicator or window the daemon has dropped (DropCopy).
  void EndCopiesInto(const AddressRange& range, bool freed);

 private:
  void OnMessage(Reply message);
  // Each handles one message. REQUIRES: mutex_ is held.
  void OnMap(const wire::MapMemory& request, Reply& message);
  void OnUnmap(const wire::UnmapMemory& request);
  void OnCopy(const wire::CopyMemory& request);
  // The owner of mapped host memory, for as long as a copy reads it; null: it is the process's own.
  std::shared_ptr<const void> SourceOf(const AddressRange& range) const;
  // Of this process, on another GPU: gives the GPU of the current context access. It stays.
  absl::Status AllowOwn(const wire::MapMemory& request);
  absl::Status OpenIpc(const wire::MapMemory& request, MemoryCloser::Opened* opened);
  absl::Status Map(const wire::MapMemory& request, Reply& message, MemoryCloser::Opened* opened,
                   CUdeviceptr* address);

  const DriverApi& driver_;
  DaemonClient& client_;
  MemoryCloser closer_;
  MemoryCopier copier_;
  std::mutex mutex_;
  std::unordered_map<int, CUcontext> contexts_;                  // by ordinal
  std::unordered_map<uint64_t, MemoryCloser::Opened> mappings_;  // by number
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_KERNEL_MEMORY_H_
