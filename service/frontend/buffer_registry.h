// The allocations that one tenant process has registered: the only memory of the process that
// operations may access. Mapping takes time, so results are delivered later (TakeMapped).
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
#define MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/shim_wire.h"
#include "service/device/device.h"
#include "service/device/memory_mapper.h"
#include "service/frontend/buffer_quota.h"
#include "service/frontend/chunked_buffer.h"

namespace mccs {

class BufferRegistry {
 public:
  // `account`: of the process; null: no quotas. `budget`: likewise; null: buffers are not in
  // the host's budget.
  // LIFETIME: device and quota outlive the registry.
  BufferRegistry(Device& device, BufferQuota& quota, std::string tenant,
                 std::shared_ptr<TenantAccount> account = nullptr, pid_t process = 0,
                 std::shared_ptr<TenantResources> budget = nullptr)
      : mapper_(device.mapper()),
        quota_(quota),
        owner_{std::move(tenant), process},
        account_(std::move(account)),
        budget_(std::move(budget)) {}

  // Starts to map what the tenant offers. On an error (kResourceExhausted, of the process or from
  // BufferQuota) nothing is started.
  absl::Status Register(uint64_t request, BufferExport&& offer);

  // Creates a buffer of `bytes` bytes that will consist of chunks, without any yet. Errors:
  // kInvalidArgument, kResourceExhausted.
  absl::StatusOr<BufferId> Reserve(uint64_t bytes);
  // Starts to map a chunk into the buffer. On an error (ChunkedBuffer's, or kInvalidArgument for a
  // buffer without chunks) nothing is started.
  absl::Status MapChunk(uint64_t request, BufferId id, uint64_t offset, BufferExport&& offer);
  absl::StatusOr<MappingEnd> UnmapChunks(BufferId id, const AddressRange& span);

  // Results of Register and MapChunk that have completed. kInvalidArgument, kResourceExhausted with
  // the reason. Each call checks at most kCheckedPerTurn mappings, and at most `most`, in
  // round-robin order.
  struct Mapped {
    uint64_t request = 0;
    bool is_chunk = false;
    absl::StatusOr<BufferId> id;
  };
  static constexpr size_t kCheckedPerTurn = 64;
  std::vector<Mapped> TakeMapped(size_t most = kCheckedPerTurn);

  // Removes the buffer. It is unmapped after its last holder; the returned token expires when that
  // is done.
  absl::StatusOr<MappingEnd> Release(BufferId id);
  // Removes some buffers, at most kReleasedPerTurn and at most `most`, and cancels as many pending
  // mappings as they complete. Returns true when nothing is left.
  static constexpr size_t kReleasedPerTurn = 64;
  bool ReleaseSome(size_t most = kReleasedPerTurn);

  // Returns the buffer of `ref`, if `bytes` bytes from its offset lie within it and are aligned to
  // `alignment`. Otherwise kInvalidArgument.
  absl::StatusOr<BufferHold> Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                     size_t alignment) const;

  bool Has(BufferId id) const { return buffers_.contains(id); }
  size_t size() const { return buffers_.size(); }
  // Mappings started by Register and MapChunk and not yet returned by TakeMapped. Each has a
  // descriptor.
  size_t pending() const { return pending_.size(); }
  // Of all buffers; those in chunks count with their maximum size.
  uint64_t bytes() const;

 private:
  // A registered buffer: one allocation, or chunks.
  struct Entry {
    BufferHold whole = {};
    MappingEnd gone = {};  // expires when `whole` is unmapped
    std::unique_ptr<ChunkedBuffer> chunks = {};
  };
  // A mapping in progress: of a whole buffer with its share, or of a chunk.
  struct Pending {
    uint64_t request = 0;
    std::shared_ptr<PendingMapping> mapping;
    std::shared_ptr<BufferShare> share = {};
    std::shared_ptr<ChunkedBuffer::PendingChunk> chunk = {};
    BufferId chunk_of = BufferId(0);
  };
  absl::StatusOr<BufferId> FinishRegistration(Pending& pending);
  absl::StatusOr<BufferId> FinishChunk(Pending& pending);

  absl::Status CheckLimit() const;
  BufferId NextId();
  absl::StatusOr<ChunkedBuffer*> FindChunked(BufferId id);

  MemoryMapper& mapper_;
  BufferQuota& quota_;
  const MappingOwner owner_;
  const std::shared_ptr<TenantAccount> account_;
  const std::shared_ptr<TenantResources> budget_;
  uint32_t last_id_ = 0;
  absl::flat_hash_map<BufferId, Entry> buffers_;
  std::deque<Pending> pending_;  // the next one to check first
  size_t pending_whole_ = 0;     // number of whole buffers in pending_
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
