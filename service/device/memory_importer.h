// How a tenant's allocation gets into the daemon's address space: handed to CpuDevice, so that
// tests and the simulator can do without other processes.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/device.h"

namespace mccs {

// THREAD: the owning engine only. May block for as long as the kernel takes to map memory.
class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;

  // Device::Import's contract.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) = 0;
  // Device::Reserve's.
  virtual absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
