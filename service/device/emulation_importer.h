// Maps memory that the CUDA emulation allocated in a tenant's process, and sealed memfds sent along
// as descriptors. The layout of a handle: emulation/include/mccs_emulation_ipc.h.
//
// The importer trusts nothing that the tenant sends: it opens the descriptor once and checks
// everything on the open descriptor, never again by name. The memory must be sealed against
// shrinking; otherwise the tenant could crash the daemon by SIGBUS.
#ifndef MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/device/memory_mapper.h"

namespace mccs {

// Errors: kInvalidArgument: invalid offer; kNotFound: the owner or its descriptor has disappeared;
// kPermissionDenied: the kernel denies the daemon access; kResourceExhausted: no address space.
class EmulationImporter final : public MemoryImporter {
 public:
  absl::StatusOr<std::unique_ptr<Region>> Import(const BufferExport& offer) override;
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) override;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_EMULATION_IMPORTER_H_
