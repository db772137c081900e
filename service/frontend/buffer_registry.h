// The allocations that one tenant process has registered: the only memory of its that work may
// touch. Mapping takes a while, so what was asked for is answered later (TakeMapped).
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
#define MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <memory>
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
  // `account`: of the process; null: it has no quotas. LIFETIME: device and quota outlive the
  // registry.
  BufferRegistry(Device& device, BufferQuota& quota, std::string tenant,
                 std::shared_ptr<TenantAccount> account = nullptr, pid_t process = 0)
      : mapper_(device.mapper()),
        quota_(quota),
        owner_{std::move(tenant), process},
        account_(std::move(account)) {}

  // Begins to map what the tenant offers. An error (kResourceExhausted, of the process or as
  // BufferQuota): nothing follows.
  absl::Status Register(uint64_t request, BufferExport&& offer);

  // A buffer of `bytes` bytes that is made of chunks, and has none yet. kInvalidArgument,
  // kResourceExhausted likewise.
  absl::StatusOr<BufferId> Reserve(uint64_t bytes);
  // Begins to map a chunk into the buffer. An error (as ChunkedBuffer's, or kInvalidArgument for a
  // buffer without chunks): nothing follows.
  absl::Status MapChunk(uint64_t request, BufferId id, uint64_t offset, BufferExport&& offer);
  absl::StatusOr<MappingGone> UnmapChunks(BufferId id, const AddressRange& span);

  // What Register and MapChunk began and what has come to an end since. kInvalidArgument,
  // kResourceExhausted with the reason. A turn looks at kLookedAtPerTurn at most, at all in turn.
  struct Mapped {
    uint64_t request = 0;
    bool is_chunk = false;
    absl::StatusOr<BufferId> id;
  };
  static constexpr size_t kLookedAtPerTurn = 64;
  std::vector<Mapped> TakeMapped();

  // Forgets the buffer. The mapping goes after its last holder; the answer expires when it has
  // gone.
  absl::StatusOr<MappingGone> Release(BufferId id);
  // Forgets some buffers, kReleasedPerTurn at most, and takes back what is being mapped as that
  // comes to an end. True: there is nothing left.
  static constexpr size_t kReleasedPerTurn = 64;
  bool ReleaseSome();

  // The buffer behind `ref`, if `bytes` bytes from its offset lie within it and are aligned to
  // `alignment`. kInvalidArgument otherwise.
  absl::StatusOr<BufferHold> Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                     size_t alignment) const;

  bool Has(BufferId id) const { return buffers_.contains(id); }
  size_t size() const { return buffers_.size(); }
  // What Register and MapChunk began and TakeMapped has not returned. Each holds a descriptor.
  size_t pending() const { return pending_.size(); }
  // Of all buffers; those in chunks with what they may grow to.
  uint64_t bytes() const;

 private:
  // What an id stands for: one allocation, or chunks.
  struct Entry {
    BufferHold whole = {};
    MappingGone gone = {};  // of `whole`
    std::unique_ptr<ChunkedBuffer> chunks = {};
  };
  // A mapping in progress: of a whole buffer with its share, or of a chunk.
  struct Pending {
    uint64_t request = 0;
    std::shared_ptr<PendingMapping> mapping;
    std::shared_ptr<BufferShare> share = {};
    std::shared_ptr<ChunkedBuffer::Coming> chunk = {};
    BufferId chunk_of = BufferId(0);
  };
  absl::StatusOr<BufferId> Enter(Pending& pending);
  absl::StatusOr<BufferId> EnterChunk(Pending& pending);

  absl::Status CheckRoom() const;
  BufferId NextId();
  absl::StatusOr<ChunkedBuffer*> FindChunked(BufferId id);

  MemoryMapper& mapper_;
  BufferQuota& quota_;
  const MappingOwner owner_;
  const std::shared_ptr<TenantAccount> account_;
  uint32_t last_id_ = 0;
  absl::flat_hash_map<BufferId, Entry> buffers_;
  std::deque<Pending> pending_;  // the next to be looked at first
  size_t coming_ = 0;            // whole buffers among them
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
