// Sends and receives between two ranks of one host: matched in the order of the calls, and copied
// by the device.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/device/device.h"
#include "service/messages/device_copy.h"
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
  struct Copy {
    OpenMessage send, receive;
    DeviceCopy copy;
  };
  struct Waiting {
    std::deque<OpenMessage> sends, receives;  // one of the two is empty
  };

  void Start(const OpenMessage& send, const OpenMessage& receive);

  Device& device_;
  uint32_t in_flight_ = 0;
  absl::flat_hash_map<RankPair, Waiting> waiting_;
  std::vector<std::unique_ptr<Copy>> copies_;  // the device knows their addresses
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
