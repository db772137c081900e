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
  // registered, or already being released.
  absl::Status Begin(uint64_t request, BufferId id, std::vector<RingUse> uses);
  // The same for chunks of the buffer, which remains. kResourceExhausted: kMaxPending is reached.
  static constexpr size_t kMaxPending = kMaxBuffersPerProcess;
  absl::Status BeginChunks(uint64_t request, BufferId id, const AddressRange& span,
                           std::vector<RingUse> uses);

  // Returns the requests whose buffers are now unmapped. Each call checks at most kCheckedPerTurn
  // releases, and at most `most`, in round-robin order, so that a tenant with thousands does not
  // delay others.
  static constexpr size_t kCheckedPerTurn = 64;
  std::vector<uint64_t> Poll(const std::function<bool(const RingUse&)>& is_over,
                             size_t most = kCheckedPerTurn);

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
  // Returns true when the reply can be sent.
  bool Step(Pending& pending, const std::function<bool(const RingUse&)>& is_over);

  BufferRegistry& buffers_;
  std::deque<Pending> pending_;  // the next one to check first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_RELEASES_H_
