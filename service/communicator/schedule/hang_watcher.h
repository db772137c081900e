// Detects an operation that stalls because some ranks have not entered it, and reports which ranks
// wait for which. Costs nothing while operations progress: hosts exchange messages only after one
// of them has waited for its warn_after_ns or kStalledAfterNs, and until the stall ends.
//
//   a host that has waited     leader                     every host
//   Stalled     ───────────►   (or its own timeout)
//                              EnteredRequest  ───────────►
//                              ◄───────────  Entered
//                              StalledOn      ───────────►   its report, and a line in its log
//
// warn_after_ns, which the tenant sets, decides about the line in the log. The metrics have stalls
// of kStalledAfterNs, whatever the tenant sets, and the report those of the shorter time of both.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_HANG_WATCHER_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_HANG_WATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "proto/peer.pb.h"
#include "service/communicator/links/star.h"
#include "service/communicator/membership/membership.h"
#include "service/stalls.h"

namespace mccs {

// Default of MCCS_WARN_AFTER.
inline constexpr int64_t kDefaultWarnAfterNs = 10 * kNsPerSec;
// Minimum of MCCS_WARN_AFTER, because each warning costs messages between hosts.
inline constexpr int64_t kMinWarnAfterNs = 100 * kNsPerMs;

// The hosts' answers as one sentence, for the operation of the host that is furthest behind.
// An empty text: no operation stalls.
struct StalledOn {
  uint64_t operation = 0;
  std::string text = {};
  uint64_t waited_ms = 0;               // the longest wait of a host
  bool ranks_missing = false;           // else it waits only for daemons that do not answer
  std::vector<AwaitedRank> ranks = {};  // that are missing, the first Stalls::kMost
  std::vector<AwaitedHost> hosts = {};  // whose daemons do not answer, likewise
};
struct HostAnswers {
  std::map<HostIndex, peer::Entered> entered;
  std::vector<HostIndex> unanswered;  // asked, but no answer yet
};
StalledOn DescribeStall(const Membership& members, const HostAnswers& answers);

class HangWatcher {
 public:
  struct Options {
    const Membership* members;
    Star* star;
    Log* log;
    std::string name;  // of the communicator, for the log
    int64_t warn_after_ns = kDefaultWarnAfterNs;
    // The progress of this host; called only when a host has waited long.
    std::function<peer::Entered()> local_entered;
  };

  // LIFETIME: members, star and log outlive this.
  explicit HangWatcher(Options options) : options_(std::move(options)) {}

  // `operation`: the current or next one on this host. `waiting`: a local rank has entered it.
  // Returns true if stalled_on(), or what is awaited, has changed.
  bool Poll(MonotonicNs now, uint64_t operation, bool waiting);
  // Returns true if the message was meant for this. kDataLoss: invalid message.
  absl::StatusOr<bool> OnMessage(const StarMessage& received, MonotonicNs now);

  // The ranks that wait, and for which others; empty when nothing stalls.
  const std::string& stalled_on() const { return stalled_on_.text; }
  // Those others, for the metrics. Only at the leader, so that a communicator has them once; and at
  // other hosts while the leader does not answer.
  const std::vector<AwaitedRank>& awaited_ranks() const { return stalled_on_.ranks; }
  const std::vector<AwaitedHost>& awaited_hosts() const { return stalled_on_.hosts; }
  // The current or next operation of this host waits for ranks that have not entered it, or an
  // earlier one.
  bool ranks_missing() const { return ranks_missing_; }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  void OnReportTimeout(MonotonicNs now);
  MonotonicNs NextReport(MonotonicNs now) const;
  // local_entered(), with the time of the wait.
  peer::Entered Entered(MonotonicNs now) const;
  // The leader has not asked although this host has reported a stall.
  void OnLeaderSilent(MonotonicNs now);
  void SendRequest(MonotonicNs now);
  absl::Status TakeAnswer(HostIndex from, const peer::Entered& entered);
  std::vector<HostIndex> Unanswered() const;
  void FinishRequest(MonotonicNs now);
  // An empty text: nothing stalls any more.
  void SetStall(StalledOn stalled_on, MonotonicNs now);

  const Options options_;
  uint64_t operation_ = 0;
  MonotonicNs waiting_since_ = 0;  // in operation_; 0: not waiting
  MonotonicNs report_at_ = 0;      // when to report (again) that this host waits; 0: not waiting
  StalledOn stalled_on_;
  bool ranks_missing_ = false;
  bool changed_ = false;
  RepeatedMessage in_log_;

  // Of other hosts: when the leader has last asked, until when it must ask after this host has
  // reported a stall (0: it need not), and that it has not.
  MonotonicNs asked_at_ = 0;
  MonotonicNs leader_asks_until_ = 0;
  bool leader_is_silent_ = false;

  // The leader's: the last StalledOn has a text; and its open request_id.
  bool announced_ = false;
  bool request_open_ = false;
  uint64_t question_ = 0;
  MonotonicNs answers_until_ = 0;
  MonotonicNs ask_again_at_ = 0;
  HostAnswers answers_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_HANG_WATCHER_H_
