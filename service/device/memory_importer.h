// How a tenant's allocation gets into the daemon's address space: handed to the MemoryMapper, so
// that tests and the simulator can do without other processes.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/device.h"

namespace mccs {

// THREAD: Import one at a time, Reserve the owning engine only. Import may block for as long as the
// kernel takes; Reserve does not.
class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;

  // MemoryMapper::Import's contract. Page-table entries come with PopulateSome.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) = 0;
  // MemoryMapper::Reserve's.
  virtual absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
