// Puts and signals between ranks of this host, or of a rank to itself: copied by the device into
// the window, then counted. Those of one ordered pair of ranks are done one after the other, in the
// order of the calls.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/messages/device_copy.h"
#include "service/messages/open_message.h"
#include "service/messages/signal_counts.h"

namespace mccs {

class LocalPuts {
 public:
  struct Parts {
    Device* device = nullptr;
    SignalCounts* signals = nullptr;
    // The port of a rank of this host; null when it has left.
    std::function<const RankPort*(Rank)> port_of = {};
  };
  // LIFETIME: the parts outlive it.
  explicit LocalPuts(Parts parts) : parts_(std::move(parts)) {}
  LocalPuts(const LocalPuts&) = delete;
  LocalPuts& operator=(const LocalPuts&) = delete;

  // A kPut or kSignal. One into a window that its rank has not registered yet waits for it.
  void Add(const OpenMessage& call);
  // A local rank has opened or closed a window, or has left: what waits for one looks again.
  void WindowsChanged();
  // Moves copies on; the calls that are complete are appended to `done`. True when anything moved.
  // Errors: as RankPort::FindInWindow and SignalCounts::Count.
  absl::StatusOr<bool> Poll(std::vector<OpenMessage>& done);

  // The device has, or can take, a part of a copy.
  bool copying() const { return copying_ > 0; }
  // No copy is in the device's hands.
  bool quiescent() const { return in_flight_ == 0; }
  // A copy into a window of `rank` has begun: that one, or with 0 any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // Appends the call of each pair that waits for its window.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A call that waits for `rank`, which has left; null: there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  struct Copy {
    std::shared_ptr<const void> window;  // held
    DeviceCopy copy;
  };
  struct Pair {
    std::deque<OpenMessage> calls;  // the front one is at work
    std::unique_ptr<Copy> copy;     // of the front one; the device knows its address
  };

  enum class Progress : uint8_t { kComplete, kUnderWay, kWaits };
  // Of the pair's front call.
  absl::StatusOr<Progress> Advance(Pair& pair, bool* moved);

  const Parts parts_;
  uint32_t in_flight_ = 0;
  size_t copying_ = 0;  // pairs
  absl::flat_hash_map<RankPair, std::unique_ptr<Pair>> pairs_;
  // Those with calls, in one of the two. What waits may be much, and costs a turn nothing.
  std::vector<Pair*> busy_;
  std::vector<Pair*> waiting_;  // for their windows
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_
