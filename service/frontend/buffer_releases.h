// Buffers that a tenant takes back while its posted work may still name them.
//
// A ReleaseBuffer comes over the socket and overtakes what stands in the rings. A buffer that a
// posted record names stays known until that record has been taken; then it is forgotten, and the
// answer waits for whoever holds its mapping.
//
//   asked ──records that name it are taken──► forgotten ──mapping gone──► answered
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

// The last record of a rank's ring that names the buffer: over when so many are taken.
struct RingUse {
  uint32_t rank = 0;     // CommHandle
  uint64_t records = 0;  // counted from the ring's beginning
  uint64_t serial = 0;   // of the rank: handles are used again
};

class BufferReleases {
 public:
  // LIFETIME: the registry outlives this.
  explicit BufferReleases(BufferRegistry& buffers) : buffers_(buffers) {}

  // `uses`: of the records that are posted and not taken. kInvalidArgument: the buffer is not
  // registered, or taken back already.
  absl::Status Begin(uint64_t request, BufferId id, std::vector<RingUse> uses);
  // The same for chunks of the buffer, which itself stays. kResourceExhausted: kMostPending.
  static constexpr size_t kMostPending = kMaxBuffersPerProcess;
  absl::Status BeginChunks(uint64_t request, BufferId id, const AddressRange& span,
                           std::vector<RingUse> uses);

  // The requests whose buffers have gone since. A turn looks at so many at most, at all of them in
  // turn: a tenant with thousands that never end costs its neighbours little.
  static constexpr size_t kLookedAtPerTurn = 64;
  std::vector<uint64_t> Poll(const std::function<bool(const RingUse&)>& is_over);

  bool empty() const { return pending_.empty(); }

 private:
  struct Pending {
    uint64_t request;
    BufferId id;
    std::optional<AddressRange> chunks;  // else all of the buffer
    std::vector<RingUse> uses;
    bool forgotten;
    MappingGone mapping;  // once it is forgotten
  };
  // Whether it can be answered.
  bool Step(Pending& pending, const std::function<bool(const RingUse&)>& is_over);

  BufferRegistry& buffers_;
  std::deque<Pending> pending_;  // the next to be looked at first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_RELEASES_H_
