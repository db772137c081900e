// The work of an active communicator on this host: its collectives and messages, the order and the
// strategy under which they run, and the watchers that report stalls.
//
// OWNER: the Communicator, in kActive, and after a failure until nothing is in flight.
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_ACTIVE_WORK_H_
#define MCCS_SERVICE_COMMUNICATOR_ACTIVE_WORK_H_

#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "proto/daemon_state.pb.h"
#include "service/communicator/links/rank_port.h"
#include "service/communicator/links/star.h"
#include "service/communicator/membership/communicator_environment.h"
#include "service/communicator/membership/forming.h"
#include "service/communicator/reporter.h"
#include "service/communicator/schedule/decided_order.h"
#include "service/communicator/schedule/departures.h"
#include "service/communicator/schedule/hang_watcher.h"
#include "service/communicator/schedule/operation_loop.h"
#include "service/communicator/schedule/progress_watcher.h"
#include "service/communicator/schedule/reached_groups.h"
#include "service/communicator/schedule/strategy_change.h"
#include "service/counters.h"
#include "service/messages/message_loop.h"
#include "service/messages/message_watcher.h"
#include "service/urgency.h"

namespace mccs {

class ActiveWork {
 public:
  struct Options {
    const CommunicatorEnvironment* environment;
    Formation* formation;  // complete
    const Departures* departures;
    std::span<const LocalRank> ranks;     // by LocalIndex
    std::span<const LocalIndex> runners;  // of KernelRanks
    WorkTally* tally;
    std::string tenant;      // of the ranks
    TenantAccount* account;  // of that tenant; null: not accounted
    int64_t warn_after_ns;
  };
  // LIFETIME: what `options` points to outlives this.
  explicit ActiveWork(const Options& options);

  // A turn is PollCalls, then PollLanes. Both return true if anything moved; an error ends the
  // communicator.
  absl::StatusOr<bool> PollCalls();
  absl::StatusOr<bool> PollLanes();
  // Returns true if stalled_on() may have changed.
  bool CheckForHangs(MonotonicNs now);
  // The stalled operations and calls, from all watchers; empty when nothing stalls.
  std::string stalled_on() const;

  // Handles a message of another host about running work. kDataLoss: invalid message.
  absl::Status OnMessage(const StarMessage& received);
  void Propose(const Strategy& strategy) { change_.Propose(strategy); }
  // See OperationLoop.
  absl::StatusOr<std::optional<double>> EstimateUs(const EstimatedCall& call) {
    return loop_.EstimateUs(call);
  }

  // See OperationLoop::SetTrace.
  void SetTrace(OperationTrace* trace) { loop_.SetTrace(trace); }

  // The communicator has failed: without further turns, quiescent() becomes true soon.
  void Stop() {
    loop_.Stop();
    messages_.Stop();
  }

  // The same, although processes do not copy what they were asked to (MessageLoop).
  void AbandonCopies() { messages_.AbandonCopies(); }
  void AbandonCopiesFor(Rank rank) { messages_.AbandonCopiesFor(rank); }

  const OperationLoop& loop() const { return loop_; }
  const MessageLoop& messages() const { return messages_; }
  const StrategyChange& change() const { return change_; }

  // A local rank waits in an incomplete call.
  bool has_pending_calls() const {
    return loop_.has_pending_calls() || messages_.has_pending_calls();
  }
  // The device holds no memory of a tenant.
  bool quiescent() const { return loop_.quiescent() && messages_.quiescent(); }
  // The device holds no memory of a rank, except what processes copy (MessageLoop::UsesMemoryOf).
  bool locally_quiescent() const { return loop_.quiescent() && messages_.locally_quiescent(); }
  // Nothing is in flight or posted, not even since the last turn, and no stream waits for captured
  // work.
  bool idle() const;
  // Collectives or messages move data.
  bool busy() const { return loop_.running() || messages_.busy(); }
  WorkDone done() const;
  // Of collectives, of captured groups and of the checks for stalls (turn_cost.h).
  int64_t cost() const {
    return loop_.cost() + reached_groups_.cost() + progress_watcher_.cost() +
           message_watcher_.cost();
  }
  Urgency urgency() const;
  // The next time at which a turn has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // Writes the current work for an operator.
  void WriteState(state::Communicator* out) const;

 private:
  void ShowStalls();
  void WriteMessages(state::Communicator* out) const;
  // Whether the local ranks have entered the current or next operation.
  peer::Entered LocalEntered() const;
  // The highest number of captured groups in live graphs, over all local ranks.
  size_t ReplayableGroups() const;
  // A rate limit alone delays sending, and nothing that needs polling is in progress.
  bool WaitsForGate() const;

  Formation& formation_;
  const Departures& departures_;
  const Clock& clock_;
  const std::span<const LocalRank> ranks_;
  DecidedOrder order_;
  StrategyChange change_;
  OperationLoop loop_;
  MessageLoop messages_;
  ReachedGroups reached_groups_;
  HangWatcher watcher_;
  ProgressWatcher progress_watcher_;
  MessageWatcher message_watcher_;
  const std::string tenant_;
  TenantAccount* const account_;
  Stalls::Entry stalls_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_ACTIVE_WORK_H_
