// Maps tenants' memory into the daemon's address space and unmaps it. Work whose time depends on
// the size of the memory runs in a MappingRunner, so the engine does not wait for it.
//
// OWNER: the Device. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

namespace mccs {

// Maps a tenant's allocation into the daemon's address space. The MemoryMapper gets it as a
// parameter, so that tests and the simulator need no other processes.
//
// THREAD: Import: one call at a time; Reserve: the owning engine only. Import may block for as long
// as the kernel takes; Reserve does not.
class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;

  // See MemoryMapper::Import. PopulatePart adds page-table entries.
  virtual absl::StatusOr<std::unique_ptr<Region>> Import(const BufferExport& offer) = 0;
  // See MemoryMapper::Reserve.
  virtual absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) = 0;
};

// A mapping in progress. The last reference dropped before `ready` cancels it: what was mapped is
// unmapped.
struct PendingMapping {
  // True when this mapping is complete, and every unmapping that the process requested before it.
  // So memory that a program freed earlier no longer counts against its limits.
  bool ready() const { return done && before.expired(); }
  bool done = false;
  std::weak_ptr<void> before;
  absl::Status status;             // once ready
  std::unique_ptr<Region> memory;  // of Import, if OK; release it with Unmap
};

class MemoryMapper {
 public:
  // `runner` null: every call completes its work before it returns.
  MemoryMapper(std::unique_ptr<MemoryImporter> importer, std::unique_ptr<MappingRunner> runner)
      : importer_(std::move(importer)), runner_(std::move(runner)) {}
  ~MemoryMapper() { runner_.reset(); }
  MemoryMapper(const MemoryMapper&) = delete;
  MemoryMapper& operator=(const MemoryMapper&) = delete;

  // Maps a tenant's allocation. kInvalidArgument, with the reason: memory that does not belong to
  // `offer.owner`, is shorter than `offer.bytes`, or could shrink later.
  std::shared_ptr<PendingMapping> Import(const MappingOwner& owner, BufferExport offer);

  // Reserves an empty range of that size at once. kInvalidArgument: not whole pages;
  // kResourceExhausted: no address space.
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) {
    return importer_->Reserve(bytes);
  }
  // DeviceRange::Map. LIFETIME: the range, until the result is ready.
  std::shared_ptr<PendingMapping> MapInto(const MappingOwner& owner,
                                          std::shared_ptr<DeviceRange> range, uint64_t offset,
                                          BufferExport offer);

  // Called before memory is unmapped, and after a chunk was mapped into a range: destroys `token`
  // when no NIC accesses the region any more. Unmapping waits for that. Null: none does.
  using Releaser = std::function<void(const Region& region, std::shared_ptr<void> token)>;
  void SetReleaser(Releaser releaser) { releaser_ = std::move(releaser); }

  // Mapped parts, as offsets.
  using Parts = std::vector<AddressRange>;

  // Unmaps, and destroys `token` in Poll when everything is unmapped. `parts`: for a range, what
  // MapInto mapped. REQUIRES: the memory is not in use, and no MapInto is in progress.
  void Unmap(const MappingOwner& owner, std::unique_ptr<Region> memory, Parts parts,
             std::shared_ptr<void> token);
  void Unmap(const MappingOwner& owner, std::unique_ptr<Region> memory,
             std::shared_ptr<void> token) {
    Parts all = {{0, memory->bytes()}};
    Unmap(owner, std::move(memory), std::move(all), std::move(token));
  }
  // The same for the parts that MapInto mapped, one per call. LIFETIME: `token` owns the range.
  void UnmapFrom(const MappingOwner& owner, DeviceRange& range, Parts parts,
                 std::shared_ptr<void> token);

  // Closes a descriptor of a memory file. It may be the file's last one.
  void Close(const MappingOwner& owner, UniqueFd fd);
  // The tenant has kMaxClosing unclosed descriptors: receive no messages from it (backpressure).
  static constexpr size_t kMaxClosing = 1024;
  bool IsFull(const std::string& tenant) const {
    if (closing_.empty()) return false;
    const auto own = closing_.find(tenant);
    return own != closing_.end() && own->second >= kMaxClosing;
  }

  // Delivers finished work, at most kDeliveredPerTurn jobs. Returns true if there was any.
  static constexpr int kDeliveredPerTurn = 64;
  bool Poll();

 private:
  class CloseJob;

  void Start(MappingRunner::Lane lane, std::unique_ptr<MappingJob> job);
  // Starts an unmapping when the region is released.
  void StartReleased(const Region& region, std::unique_ptr<MappingJob> job);
  // A token shared by the unmappings that the process starts from now on.
  std::shared_ptr<void> TrackUnmapping(const MappingOwner& owner);
  // The token of the unmappings started so far; later ones share a new token.
  std::weak_ptr<void> TakeUnmappings(const MappingOwner& owner);

  std::map<pid_t, std::weak_ptr<void>> unmapping_;  // by process
  std::map<std::string, size_t> closing_;           // descriptors, by tenant; none has 0
  Releaser releaser_;
  const std::unique_ptr<MemoryImporter> importer_;
  std::unique_ptr<MappingRunner> runner_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_MAPPER_H_
