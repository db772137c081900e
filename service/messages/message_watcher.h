// Detects a send, receive or one-sided call that waits long for the other rank, and a put that a
// process does not copy into its window. Reports which ranks wait for which. Each host watches the
// calls of its own ranks, so no messages are needed. A call is reported after 1 to 1.25 times
// warn_after_ns.
//
// A check looks at the calls in parts (MessageLoop::AddWaiting), as many per turn as a turn may: a
// tenant chooses how many calls wait, and how often they are checked. Of very many, it watches
// some.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "service/awaited_ranks.h"
#include "service/messages/message_loop.h"

namespace mccs {

class MessageWatcher {
 public:
  struct Options {
    Log* log;
    std::string name;  // of the communicator, for the log
    int64_t warn_after_ns;
    std::function<std::string(Rank)> host_of;  // host name, for messages
  };

  // LIFETIME: the log outlives this.
  explicit MessageWatcher(Options options) : options_(std::move(options)) {}

  // Returns true if stalled_on() has changed.
  bool Poll(MonotonicNs now, const MessageLoop& messages);

  // The ranks of this host that wait, and for which others; empty when nothing stalls.
  const std::string& stalled_on() const { return stalled_on_.text; }
  // Those others, as far as the text names them.
  const std::vector<AwaitedRank>& awaited() const { return stalled_on_.awaited; }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // The cost (turn_cost.h) of the checks so far.
  int64_t cost() const { return cost_; }

 private:
  using PairAndKind = std::pair<RankPair, OpKind>;
  // The oldest call of a pair and kind, or the oldest part of its puts.
  struct Waiting {
    uint64_t number = 0;
    MonotonicNs since = 0;
  };
  using WaitingPuts = absl::flat_hash_map<RankPair, Waiting>;
  using Waits = absl::flat_hash_map<PairAndKind, Waiting>;
  struct Stall {
    std::string text;
    AwaitedRank awaited;
  };
  // A check of all calls, over one or more turns.
  struct Check {
    explicit Check(MonotonicNs now) : began(now) {}

    const MonotonicNs began;
    size_t part = 0;  // the next
    Waits calls;      // found so far
    WaitingPuts puts;
    // Calls that have waited long, and puts: the first ones by rank, and the number of all.
    std::map<std::tuple<Rank, Rank, OpKind>, Stall> stalled_calls;
    std::vector<Stall> stalled_puts;
    size_t stalls = 0;

    size_t found() const { return calls.size() + puts.size(); }
  };
  struct Report {
    std::string text;
    std::vector<AwaitedRank> awaited;
  };

  // Looks at parts. Returns true when the check is complete.
  bool LookAtParts(const MessageLoop& messages);
  void Note(const OpenMessage& call);
  void Note(const UncopiedPut& put);
  // Whether the call or put has waited long. One that waited at the last check keeps its time.
  template <typename Key, typename Map>
  bool HasStalled(const Key& key, uint64_t number, const Map& before, Map* now) const;
  Report CompleteCheck();
  void LogStall(MonotonicNs now);

  // Of a pair that is looked at: about 10 ns; and of what waits there: about 0.3 µs.
  static constexpr int64_t kCostPerLook = 100;
  static constexpr int64_t kCostPerCall = 3 << 10;
  // A turn looks at no further part after this cost: about 0.2 ms.
  static constexpr int64_t kCostPerTurn = 2 << 20;
  // A check looks at no further part once it has found so many calls and puts.
  static constexpr size_t kMostFound = 16 * WaitingCalls::kMost;

  const Options options_;
  int64_t cost_ = 0;
  MonotonicNs check_at_ = 0;    // 0: no rank waits
  std::optional<Check> check_;  // that runs
  Waits calls_;                 // at the last check
  WaitingPuts puts_;            // likewise
  Report stalled_on_;
  RepeatedMessage in_log_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
