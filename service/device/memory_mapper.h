// Tenants' memory on its way into the daemon's address space and out of it. The engine asks and
// goes on: what takes as long as the memory is large runs in a MappingRunner.
//
// OWNER: the Device. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "base/unique_fd.h"
#include "service/device/device.h"
#include "service/device/mapping_runner.h"
#include "service/device/memory_importer.h"

namespace mccs {

// A mapping that is being made. Whoever drops it before `ready` takes it back: what was mapped is
// unmapped.
struct PendingMapping {
  // It is over, and so is all that its process took back before: a program that frees memory and
  // registers other memory finds room for a third one.
  bool ready() const { return done && before.expired(); }
  bool done = false;
  std::weak_ptr<void> before;
  absl::Status status;                   // once ready
  std::unique_ptr<DeviceMemory> memory;  // of Import, with an OK status; give it to Unmap
};

class MemoryMapper {
 public:
  // `runner` null: everything is done when a call returns, and takes its time.
  MemoryMapper(std::unique_ptr<MemoryImporter> importer, std::unique_ptr<MappingRunner> runner)
      : importer_(std::move(importer)), runner_(std::move(runner)) {}
  ~MemoryMapper() { runner_.reset(); }
  MemoryMapper(const MemoryMapper&) = delete;
  MemoryMapper& operator=(const MemoryMapper&) = delete;

  // Maps a tenant's allocation. Refuses (kInvalidArgument, with the reason) what does not belong to
  // `offer.owner`, is shorter than `offer.bytes`, or could shrink later.
  std::shared_ptr<PendingMapping> Import(const MappingOwner& owner, BufferExport offer);

  // A range of so many bytes, with nothing in it, at once. kInvalidArgument: not whole pages;
  // kResourceExhausted.
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) {
    return importer_->Reserve(bytes);
  }
  // DeviceRange::Map. LIFETIME: the range, until the result is ready.
  std::shared_ptr<PendingMapping> MapInto(const MappingOwner& owner,
                                          std::shared_ptr<DeviceRange> range, uint64_t offset,
                                          BufferExport offer);

  // Where something is mapped: offsets.
  using Parts = std::vector<AddressRange>;

  // Unmaps, and destroys `token` once nothing of it is mapped any more, in Poll. `parts`: of a
  // range, what MapInto mapped. REQUIRES: nobody uses the memory, nor waits for a MapInto.
  void Unmap(const MappingOwner& owner, std::unique_ptr<DeviceMemory> memory, Parts parts,
             std::shared_ptr<void> token);
  void Unmap(const MappingOwner& owner, std::unique_ptr<DeviceMemory> memory,
             std::shared_ptr<void> token) {
    Parts all = {{0, memory->bytes()}};
    Unmap(owner, std::move(memory), std::move(all), std::move(token));
  }
  // The same for what some MapIntos mapped, one part each. LIFETIME: `token` keeps the range.
  void UnmapFrom(const MappingOwner& owner, DeviceRange& range, Parts parts,
                 std::shared_ptr<void> token);

  // Closes a descriptor of a memory file, whose last holder the daemon may be.
  void Close(const MappingOwner& owner, UniqueFd fd);
  // The tenant has kMostClosing of them that are not closed yet: take no messages from it.
  static constexpr size_t kMostClosing = 1024;
  bool IsFull(const std::string& tenant) const {
    if (closing_.empty()) return false;
    const auto own = closing_.find(tenant);
    return own != closing_.end() && own->second >= kMostClosing;
  }

  // Delivers what has been done since; a turn delivers so much at most. True when there was any.
  static constexpr int kDeliveredPerTurn = 64;
  bool Poll();

 private:
  class CloseJob;

  void Start(MappingRunner::Lane lane, std::unique_ptr<MappingJob> job);
  // What lives as long as the unmappings that the process begins now.
  std::shared_ptr<void> NoteUnmapping(const MappingOwner& owner);
  // The same of those that it has begun; those to come have another one.
  std::weak_ptr<void> TakeUnmappings(const MappingOwner& owner);

  std::map<pid_t, std::weak_ptr<void>> unmapping_;  // by process
  std::map<std::string, size_t> closing_;           // descriptors, by tenant; none has 0
  const std::unique_ptr<MemoryImporter> importer_;
  std::unique_ptr<MappingRunner> runner_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_
