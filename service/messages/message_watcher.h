// Detects a send, receive or one-sided call that waits long for the other rank, a put that a
// process does not copy into its window, and a transfer to or from another host that makes no
// progress. Reports which ranks wait for which, and for which hosts. Each host watches the calls of
// its own ranks, so no messages are needed. A call is reported after 1 to 1.25 times warn_after_ns,
// which the tenant sets, or kStalledAfterNs if that is shorter. It is logged after the first time,
// and counts in the metrics after the second.
//
// A check looks at the calls in parts (MessageLoop::AddWaiting), as many per turn as a turn may: a
// tenant chooses how many calls wait, and how often they are checked. Of very many, it watches
// some.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "service/executor/stalled_peer.h"
#include "service/messages/message_loop.h"
#include "service/stalls.h"

namespace mccs {

class MessageWatcher {
 public:
  struct Options {
    Log* log;
    std::string name;  // of the communicator, for the log
    int64_t warn_after_ns;
    std::function<HostIndex(Rank)> host_of;
    std::function<std::string(HostIndex)> name_of;
  };

  // LIFETIME: the log outlives this.
  explicit MessageWatcher(Options options) : options_(std::move(options)) {}

  // Returns true if stalled_on(), or what is awaited, has changed.
  bool Poll(MonotonicNs now, const MessageLoop& messages);

  // The ranks of this host that wait, and for which others; empty when nothing stalls.
  const std::string& stalled_on() const { return stalled_on_.text; }
  // Those others, and hosts, for the metrics; the first ones of many.
  const std::vector<AwaitedRank>& awaited_ranks() const { return stalled_on_.ranks; }
  const std::vector<AwaitedHost>& awaited_hosts() const { return stalled_on_.hosts; }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // The cost (turn_cost.h) of the checks so far.
  int64_t cost() const { return cost_; }

 private:
  // The oldest call of a pair and kind, the oldest part of its puts, its oldest receive if it is
  // arriving, or a lane; and how far it is.
  struct Waiting {
    uint64_t number = 0;
    uint64_t moved = 0;
    MonotonicNs since = 0;
  };
  template <typename Key>
  using Waits = absl::flat_hash_map<Key, Waiting>;
  struct AllWaits {
    Waits<std::pair<RankPair, OpKind>> calls;
    Waits<RankPair> puts;
    Waits<RankPair> arriving;
    Waits<std::pair<HostIndex, int>> lanes;
  };
  // A check of all calls, over one or more turns.
  struct Check {
    explicit Check(MonotonicNs now) : began(now) {}

    const MonotonicNs began;
    size_t part = 0;  // the next
    AllWaits waits;   // found so far
    // Those that have waited long: calls, the first ones by rank, and others; the number of all,
    // and the longest wait.
    std::map<std::tuple<Rank, Rank, OpKind>, std::string> stalled_calls;
    std::vector<std::string> others;
    size_t stalls = 0;
    int64_t longest_ns = 0;
    // Of those that count in the metrics, the first ones.
    std::set<Rank> ranks;
    std::set<StalledPeer> hosts;

    size_t found() const { return waits.calls.size() + waits.puts.size(); }
  };
  struct Report {
    std::string text;
    int64_t longest_ns = 0;
    std::vector<AwaitedRank> ranks;
    std::vector<AwaitedHost> hosts;
  };

  // Looks at parts. Returns true when the check is complete.
  bool LookAtParts(const MessageLoop& messages);
  void Note(const OpenMessage& call);
  void Note(const UncopiedPut& put);
  void Note(const ArrivingMessage& arriving);
  void Note(const BusyLane& lane);
  // The wait after which a stall is reported.
  int64_t period_ns() const { return std::min(options_.warn_after_ns, kStalledAfterNs); }
  // How long it has waited; 0: not long. One that waited at the last check, as far as now, keeps
  // its time.
  template <typename Key>
  int64_t CountWait(const Key& key, Waiting waiting, Waits<Key> AllWaits::*waits);
  // Adds one that counts in the metrics, if it is among the first.
  template <typename Awaited>
  static void AddAwaited(const Awaited& awaited, std::set<Awaited>* first);
  // " on h1" of a rank.
  std::string OnHost(Rank rank) const;
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
  AllWaits waits_;              // at the last check
  Report stalled_on_;
  RepeatedMessage in_log_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_WATCHER_H_
