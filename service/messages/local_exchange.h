// Sends and receives between two ranks of one host.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/messages/device_copy.h"
#include "service/messages/open_message.h"
#include "service/messages/waiting_calls.h"

namespace mccs {

// Matches the two ends in the order of their calls, and copies by the device.
class LocalExchange {
 public:
  // LIFETIME: the device outlives it.
  explicit LocalExchange(Device& device) : device_(device) {}
  LocalExchange(const LocalExchange&) = delete;
  LocalExchange& operator=(const LocalExchange&) = delete;

  // Adds a call of either end; the copy starts when both ends have called. kFailedPrecondition: the
  // two calls do not match.
  absl::Status Add(const OpenMessage& message);
  // Advances the copies, within the PollLimit, and appends complete messages to `done`. Returns
  // true if anything moved. An error of the device is permanent.
  absl::StatusOr<bool> Poll(std::vector<OpenMessage>& done);

  bool copying() const { return !copies_.empty(); }
  // No copy is in the device.
  bool quiescent() const { return mem_ops_.outstanding == 0; }
  // The communicator has failed: without further Poll(), quiescent() becomes true soon.
  void Stop();
  // Limit of pairs that are kept without calls: all of 32 ranks.
  static constexpr size_t kMaxIdlePairs = 1024;
  size_t kept_pairs() const { return pairs_.size(); }
  // Appends, for each pair, the oldest call that waits for the other end.
  void AddUnmatched(WaitingCalls& waiting) const;
  // A call that waits for one by `rank`, which has left; null if there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  struct Copy {
    OpenMessage send, receive;
    DeviceCopy copy;
  };
  struct Pair;
  using PairList = std::list<Pair>;
  struct Pair {
    RankPair ranks;
    PairList* awaiting_source;       // in by_awaited_
    PairList* awaiting_destination;  // likewise
    std::deque<OpenMessage> calls;   // that wait for the other end: all of one kind

    PairList& ListOf(const OpenMessage& call) const {
      return call.by_source() ? *awaiting_destination : *awaiting_source;
    }
  };

  PairList::iterator FindOrAdd(const RankPair& ranks);
  // Takes the oldest call of the pair.
  OpenMessage TakeWaiting(PairList::iterator pair);
  absl::Status Start(const OpenMessage& send, const OpenMessage& receive);

  Device& device_;
  MemOpOwner mem_ops_;
  // A tenant chooses the number of pairs: few are kept without calls, and per-turn checks must not
  // iterate over those with calls.
  absl::flat_hash_map<RankPair, PairList::iterator> pairs_;
  std::map<Rank, PairList> by_awaited_;  // pairs with calls, by the rank they wait for
  PairList idle_;                        // those without, for the next calls; the oldest in front
  // The next to advance first. The device holds their addresses.
  std::deque<std::unique_ptr<Copy>> copies_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
