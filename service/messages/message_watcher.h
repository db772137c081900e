// Detects a send, receive or one-sided call that waits long for the other rank, and a put that a
// process does not copy into its window. Reports which ranks wait for which. Each host watches the
// calls of its own ranks, so no messages are needed. A call is reported after 1 to 1.25 times
// warn_after_ns.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_

#include <cstdint>
#include <functional>
#include <string>
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

  struct Stall {
    std::string text;
    std::vector<AwaitedRank> awaited;
  };

  void UpdateWaiting(MonotonicNs now, const std::vector<OpenMessage>& unmatched,
                     const std::vector<UncopiedPut>& uncopied);
  Stall Describe(MonotonicNs now, const std::vector<OpenMessage>& unmatched,
                 const std::vector<UncopiedPut>& uncopied) const;
  void LogStall(MonotonicNs now);

  // Of a call that waits, in one check: about 0.3 µs.
  static constexpr int64_t kCostPerCall = 3 << 10;

  const Options options_;
  int64_t cost_ = 0;
  MonotonicNs check_at_ = 0;                           // 0: no rank waits
  absl::flat_hash_map<PairAndKind, Waiting> waiting_;  // at the last check
  absl::flat_hash_map<RankPair, Waiting> uncopied_;    // likewise
  Stall stalled_on_;
  RepeatedMessage in_log_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
