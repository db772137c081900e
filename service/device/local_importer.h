// Buffers of this process, registered under a number: for the simulator and for tests, whose
// tenants are not processes.
#ifndef MCCS_SERVICE_DEVICE_LOCAL_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_LOCAL_IMPORTER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "service/device/memory_importer.h"

namespace mccs {

// Any holder of a handle may import. LIFETIME: buffers outlive what was imported from them.
class LocalImporter final : public MemoryImporter {
 public:
  using Handle = std::array<uint8_t, wire::kIpcHandleBytes>;

  // Makes `memory` importable by the process that calls itself `owner`.
  Handle Register(std::span<std::byte> memory, pid_t owner);
  void Unregister(const Handle& handle);

  // kInvalidArgument: an unknown handle, another owner, or more bytes than registered.
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport& offer) override;
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) override;

 private:
  struct Entry {
    std::span<std::byte> memory;
    pid_t owner;
  };

  uint64_t next_ = 1;
  std::map<uint64_t, Entry> entries_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_LOCAL_IMPORTER_H_
