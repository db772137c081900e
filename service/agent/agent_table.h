// The agent's messages to the controller, as a table of communicators that marks unsent entries.
// The engine writes it and the agent's threads read it, both under the agent's mutex.
//
// clang-format off
//   Announce, Report, Ended ──► entry, marked ──TakeUnsent──► messages, marks removed
//                               A report that only shows progress waits for those of other
//                               communicators (kCollectNs), and is sent as its difference from the
//                               last one.
//   Propose, RateLimits, Tenants  ◄── stored until the engine takes them
//   Registration() marks every entry as unsent, because a new stream has no state.
// clang-format on
//
// No threads, no network.
#ifndef MCCS_SERVICE_AGENT_AGENT_TABLE_H_
#define MCCS_SERVICE_AGENT_AGENT_TABLE_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "proto/agent.pb.h"
#include "service/communicator/links/controller_link.h"

namespace mccs {

class AgentTable {
 public:
  // Communicators beyond this number work, but are not reported to the controller.
  static constexpr size_t kMaxEntries = 65536;

  void Announce(const agent::v1::Announce& announce);
  void Report(const agent::v1::Report& report);
  // The condition of this host's GPUs.
  void SetGpuSurvey(agent::v1::GpuSurvey survey) { gpu_survey_ = std::move(survey); }
  // The final report of a communicator.
  void Ended(CommId id, const std::string& why);
  // Drops the final reports, because there is no stream. Exception: communicators in the stream's
  // registration, which the controller may believe to run; they are reported once it has accepted.
  void DropEnded();
  // The stream has ended: drops all final reports.
  void DropRegistration();

  // All announced communicators that this host leads, for a new stream. Marks all reports as
  // unsent.
  std::vector<agent::v1::Announce> Registration();
  // Returns unsent messages, each after those it depends on, and reports together in one. At most
  // kMaxUnsent announcements, reports and ends. `now`: time on any clock, the same in all calls.
  std::vector<agent::v1::FromAgent> TakeUnsent(MonotonicNs now);
  // When to call TakeUnsent if nothing else happens: kAtOnce, kNever, or a time.
  MonotonicNs NextUnsent() const;
  // Sends all reports again and complete, for a controller that did not know a communicator at its
  // first report.
  void ResendReports();
  // Call at each heartbeat; sometimes resends all reports. The longer the interval of periodic
  // reports, the fewer are resent, in proportion.
  void OnHeartbeat(int64_t report_every_ns);

  // Stores a proposal for TakeProposal. kNotFound: this host leads no such communicator (it may
  // have ended); kInvalidArgument: invalid strategy.
  absl::Status Propose(const agent::v1::Propose& proposal);
  std::optional<Proposal> TakeProposal();

  // Stores an order for TakeRateUpdate. An order for an unknown communicator waits for its first
  // report; at most kMaxEarlyRateUpdates orders wait. kInvalidArgument: invalid order.
  absl::Status SetRateLimits(const agent::v1::RateLimits& order);
  std::optional<RateUpdate> TakeRateUpdate();

  // Whether there is an order to take.
  bool has_updates() const {
    return !proposed_.empty() || !rate_updates_.empty() || !state_requests_.empty() ||
           !trace_orders_.empty() || tenants_.has_value() || id_key_.has_value() ||
           !found_rendezvous_.empty() || peer_hosts_.has_value();
  }

  // Stores the complete list for TakeTenants, and the key for TakeIdKey; replaces earlier ones.
  void SetTenants(const agent::v1::Tenants& tenants);
  std::optional<std::vector<TenantEntry>> TakeTenants() {
    return std::exchange(tenants_, std::nullopt);
  }
  std::optional<std::string> TakeIdKey() { return std::exchange(id_key_, std::nullopt); }

  // All named rendezvous; each new stream gets them again.
  void SetNamedRendezvous(const agent::v1::NamedRendezvous& all);
  // Stores an answer for TakeFoundRendezvous; only the newest per id. kInvalidArgument: its
  // endpoint is none.
  absl::Status AddFoundRendezvous(const agent::v1::FoundRendezvous& found);
  std::optional<FoundRendezvous> TakeFoundRendezvous();

  // Each new stream gets it again.
  void SetUnreachableHosts(const agent::v1::UnreachableHosts& all);
  // Stores the list for TakePeerHosts; replaces an earlier one. kInvalidArgument: a host of the
  // list has an invalid endpoint and is left out.
  absl::Status SetPeerHosts(const agent::v1::PeerHosts& list);
  std::optional<PeerHosts> TakePeerHosts() { return std::exchange(peer_hosts_, std::nullopt); }

  // Stores an operator's request for the daemon's state; ignored beyond kMaxStateRequests.
  void AddStateRequest(uint64_t request_id);
  std::optional<uint64_t> TakeStateRequest();
  void AddState(uint64_t request_id, const state::Daemon& state);
  // Stores a request for a trace; ignored beyond kMaxStateRequests. `order` that stops a trace
  // which has not been taken removes it.
  void AddTraceOrder(const TraceOrder& order);
  std::optional<TraceOrder> TakeTraceOrder();
  void AddTrace(uint64_t request_id, const trace::Host& trace);
  // Stores the result of a Probe; dropped if too many answers are unsent.
  void AddProbeResult(agent::v1::Probed probed);
  // The stream has ended: drops requests and answers.
  void DropStateRequests();

  static constexpr size_t kMaxStateRequests = 8;
  static constexpr size_t kMaxUnsent = 256;
  // Time from the first report that waits to the message with all that wait. It is longer than
  // Reporter::kSpreadNs, so that one message has those of all communicators, and a part of
  // kReportDelayNs.
  static constexpr int64_t kCollectNs = 200 * kNsPerMs;
  static constexpr MonotonicNs kAtOnce = std::numeric_limits<MonotonicNs>::min();
  // Heartbeats until all reports are resent, with the default interval of reports.
  static constexpr int kHeartbeatsPerRepeat = 4;
  // Per communicator: the current strategy, the next one, and those that arrived meanwhile.
  static constexpr size_t kMaxAccepted = 8;
  static constexpr size_t kMaxEarlyRateUpdates = 256;

 private:
  enum class ReportState : uint8_t {
    kSent,
    kWaiting,  // for the next message with progress
    kUrgent,
  };

  struct Entry {
    std::optional<agent::v1::Announce> announce;  // this host leads
    bool announce_unsent = false;
    bool registered = false;  // named in the registration of the current stream
    std::optional<agent::v1::Report> report;
    std::optional<agent::v1::Report> sent;  // on the current stream
    std::optional<agent::v1::Progress>
        difference;        // from `sent` to `report`; absent: not expressible
    bool repeats = false;  // the next message has the complete report
    ReportState report_state = ReportState::kSent;
    std::optional<std::string> ended;
    std::optional<Strategy> proposal;
    Epoch newest{0};  // of all proposals
    std::vector<Strategy>
        accepted;  // proposals that the leader took, starting with the current one
  };

  Entry* Find(CommId id);
  void MarkReport(Entry* entry, ReportState state);
  static void AddReport(Entry* entry, agent::v1::Reports* reports);
  // Replaces the order for the same communicator, if any, and appends the new one at the end.
  static void Replace(std::deque<RateUpdate>* orders, RateUpdate order);

  std::map<CommId, Entry> entries_;
  int heartbeats_ = 0;                         // since all reports were resent
  bool urgent_ = false;                        // an entry may have a message to send at once
  bool waiting_ = false;                       // an entry may have a waiting report
  MonotonicNs progress_due_ = kAtOnce;         // of the reports that wait; kAtOnce: not set yet
  std::deque<CommId> proposed_;                // with a proposal to take, oldest first
  std::deque<RateUpdate> rate_updates_;        // to take; one per communicator
  std::deque<RateUpdate> early_rate_updates_;  // the same, for communicators that are not known yet
  std::optional<std::vector<TenantEntry>> tenants_;  // to take
  std::optional<std::string> id_key_;                // to take
  std::deque<uint64_t> state_requests_;              // to take
  std::deque<TraceOrder> trace_orders_;              // to take
  std::deque<agent::v1::FromAgent> replies_;
  std::optional<agent::v1::GpuSurvey> gpu_survey_;  // unsent
  agent::v1::NamedRendezvous named_rendezvous_;
  bool named_rendezvous_unsent_ = false;
  std::map<CommId, FoundRendezvous> found_rendezvous_;  // to take
  agent::v1::UnreachableHosts unreachable_hosts_;
  bool unreachable_hosts_unsent_ = false;
  std::optional<PeerHosts> peer_hosts_;  // to take
  bool has_peer_hosts_ = false;          // the last one had any
};

// Clock comparison, the agent's part (Heartbeat in proto/agent.proto): each heartbeat of the agent
// echoes the time of the controller's last one. One per stream.
//
// THREAD: any, under the agent's mutex.
class ClockEcho {
 public:
  // Records a heartbeat of the controller. `now`: on the clock that paces lanes.
  void OnHeartbeat(const agent::v1::Heartbeat& beat, MonotonicNs now);
  // Returns the heartbeat to send.
  agent::v1::Heartbeat MakeHeartbeat(MonotonicNs now) const;

 private:
  MonotonicNs received_sent_ = 0;  // on the controller's clock; 0: no heartbeat, or without a time
  MonotonicNs received_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_TABLE_H_
