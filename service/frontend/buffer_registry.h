// The allocations that one tenant process has registered: the only memory of its that work may
// touch.
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
#define MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/shim_wire.h"
#include "service/device/device.h"
#include "service/frontend/buffer_quota.h"
#include "service/frontend/chunked_buffer.h"

namespace mccs {

class BufferRegistry {
 public:
  // `account`: of the process; null: it has no quotas. LIFETIME: device and quota outlive the
  // registry.
  BufferRegistry(Device& device, BufferQuota& quota, std::string tenant,
                 std::shared_ptr<TenantAccount> account = nullptr)
      : device_(device), quota_(quota), tenant_(std::move(tenant)), account_(std::move(account)) {}

  // Maps what the tenant offers. kInvalidArgument, kResourceExhausted (of the process, or as
  // BufferQuota) with the reason.
  absl::StatusOr<BufferId> Register(const BufferExport& offer);

  // A buffer of `bytes` bytes that is made of chunks, and has none yet. kInvalidArgument,
  // kResourceExhausted likewise.
  absl::StatusOr<BufferId> Reserve(uint64_t bytes);
  // As ChunkedBuffer's. kInvalidArgument also for a buffer that is none.
  absl::Status MapChunk(BufferId id, uint64_t offset, const BufferExport& offer);
  absl::StatusOr<std::weak_ptr<DeviceMemory>> UnmapChunks(BufferId id, const AddressRange& span);

  // Forgets the buffer. The mapping goes with its last holder; the answer expires when it has gone.
  absl::StatusOr<std::weak_ptr<DeviceMemory>> Release(BufferId id);

  // The buffer behind `ref`, if `bytes` bytes from its offset lie within it and are aligned to
  // `alignment`. kInvalidArgument otherwise.
  absl::StatusOr<BufferHold> Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                     size_t alignment) const;

  bool Has(BufferId id) const { return buffers_.contains(id); }
  size_t size() const { return buffers_.size(); }
  // Of all buffers; those in chunks with what they may grow to.
  uint64_t bytes() const;

 private:
  // What an id stands for: one allocation, or chunks.
  struct Entry {
    BufferHold whole = {};
    std::unique_ptr<ChunkedBuffer> chunks = {};
  };

  absl::StatusOr<BufferId> NextId();
  absl::StatusOr<ChunkedBuffer*> FindChunked(BufferId id);

  Device& device_;
  BufferQuota& quota_;
  const std::string tenant_;
  const std::shared_ptr<TenantAccount> account_;
  uint32_t last_id_ = 0;
  absl::flat_hash_map<BufferId, Entry> buffers_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_REGISTRY_H_
