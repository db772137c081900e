// Maps memory that the CUDA emulation allocated in a tenant's process, and sealed memfds sent along
// as descriptors. The layout of a handle: emulation/include/mccs_emulation_ipc.h.
//
// Nothing that the tenant says is believed: the descriptor is opened once, and everything is
// checked on the descriptor opened, never again by name. In particular the memory must be sealed
// against shrinking, or the tenant could make the daemon die of SIGBUS.
#ifndef MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/memory_importer.h"

namespace mccs {

// Errors: kInvalidArgument for an offer that is wrong, kNotFound when the owner or its descriptor is
// gone, kPermissionDenied when the kernel refuses the daemon, kResourceExhausted when nothing more
// can be mapped.
class EmulationImporter final : public MemoryImporter {
 public:
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) override;
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) override;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_
