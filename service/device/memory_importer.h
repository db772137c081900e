// Maps a tenant's allocation into the daemon's address space. The MemoryMapper gets it as a
// parameter, so that tests and the simulator need no other processes.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/device.h"

namespace mccs {

// THREAD: Import: one call at a time; Reserve: the owning engine only. Import may block for as long
// as the kernel takes; Reserve does not.
class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;

  // See MemoryMapper::Import. PopulatePart adds page-table entries.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) = 0;
  // See MemoryMapper::Reserve.
  virtual absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_IMPORTER_H_
