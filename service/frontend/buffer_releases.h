// Releases of buffers that the tenant's posted operations may still use.
//
// A ReleaseBuffer arrives by the socket and overtakes the work rings. A buffer that a posted record
// names stays registered until the record has been taken. Then the buffer is removed, and the reply
// is sent when its mapping has ended.
//
//   requested ──records that name it are taken──► removed ──unmapped──► replied
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_BUFFER_RELEASES_H_
#define MCCS_SERVICE_FRONTEND_BUFFER_RELEASES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

// The last record of a rank's ring that names the buffer: over when `records` have been taken.
struct RingUse {
  uint32_t rank = 0;     // its `comm_handle`
  uint64_t records = 0;  // counted from the ring's start
  uint64_t serial = 0;   // of the rank, because handles are reused
};

class BufferReleases {
 public:
  // LIFETIME: the registry outlives this.
  explicit BufferReleases(BufferRegistry& buffers) : buffers_(buffers) {}

  // `uses`: by records that are posted and not yet taken. kInvalidArgument: the buffer is not
  // registered, or already being released. kResourceExhausted: kMaxUses is reached.
  absl::Status Begin(uint64_t request, BufferId id, std::vector<RingUse> uses);
  // The same for chunks of the buffer, which remains. kResourceExhausted also for kMaxPending.
  static constexpr size_t kMaxPending = kMaxBuffersPerProcess;
  // Of all pending releases: 24 MiB.
  static constexpr size_t kMaxUses = size_t{1} << 20;
  absl::Status BeginChunks(uint64_t request, BufferId id, const AddressRange& span,
                           std::vector<RingUse> uses);

  struct Polled {
    std::vector<uint64_t> ended;  // requests
    size_t checked = 0;           // releases, and uses of rings
    bool moved = false;           // some ended, or wait for fewer rings
  };
  // Returns the requests whose buffers are now unmapped. Each call checks at most kCheckedPerTurn
  // releases, and at most `most`, in round-robin order, so that a tenant with thousands does not
  // delay others. It checks at most kCheckedPerTurn + 1 uses of rings; a use that is over is not
  // checked again.
  static constexpr size_t kCheckedPerTurn = 64;
  Polled Poll(const std::function<bool(const RingUse&)>& is_over, size_t most = kCheckedPerTurn);

  bool empty() const { return pending_.empty(); }

 private:
  struct Pending {
    uint64_t request;
    BufferId id;
    std::optional<AddressRange> chunks;  // none: the whole buffer
    std::vector<RingUse> uses;
    bool removed;
    MappingEnd mapping;  // after the removal
  };
  // `checks`: the uses that it may still check. Returns true when the reply can be sent.
  bool Step(Pending& pending, const std::function<bool(const RingUse&)>& is_over, size_t* checks);
  absl::Status ReserveUses(size_t uses);

  BufferRegistry& buffers_;
  std::deque<Pending> pending_;  // the next one to check first
  size_t uses_ = 0;              // of all pending releases
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_RELEASES_H_
