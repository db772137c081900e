// Sends and receives between two ranks of one host: matched in the order of the calls, and copied
// by the device.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/device/device.h"
#include "service/executor/pending_mem_ops.h"
#include "service/messages/open_message.h"

namespace mccs {

class LocalExchange {
 public:
  // LIFETIME: the device outlives it.
  explicit LocalExchange(Device& device) : device_(device) {}
  LocalExchange(const LocalExchange&) = delete;
  LocalExchange& operator=(const LocalExchange&) = delete;

  // A call of either end; its copy begins when the other end has called too. kFailedPrecondition:
  // the two do not fit together.
  absl::Status Add(const OpenMessage& message);
  // Moves copies on; the messages that are complete are appended to `done`. True when anything
  // moved.
  bool Poll(std::vector<OpenMessage>& done);

  bool copying() const { return !copies_.empty(); }
  // No copy is in the device's hands.
  bool quiescent() const { return in_flight_ == 0; }
  // Appends the oldest call of each pair that waits for the other end's.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A call that waits for one of `rank`, which will make none; null: there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  // Parts of one copy that the device has at a time: enough for all its workers.
  static constexpr size_t kParts = 4;
  // As Geometry's local slices: the operands stay in a core's second-level cache.
  static constexpr uint64_t kPartBytes = 256 << 10;

  struct Part {
    PendingMemOps mem_ops;
    MemSource source;
    std::byte* destination = nullptr;
  };
  struct Copy {
    OpenMessage send, receive;
    uint64_t submitted = 0;  // bytes
    std::array<Part, kParts> parts;
  };
  struct Waiting {
    std::deque<OpenMessage> sends, receives;  // one of the two is empty
  };

  void Start(const OpenMessage& send, const OpenMessage& receive);
  // True when all of it is copied.
  bool Advance(Copy& copy, bool* moved);

  Device& device_;
  uint32_t in_flight_ = 0;
  absl::flat_hash_map<RankPair, Waiting> waiting_;
  std::vector<std::unique_ptr<Copy>> copies_;  // the device knows their addresses
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
