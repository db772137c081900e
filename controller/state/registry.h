// The controller's state: registered hosts, their communicators, and the strategies that these were
// proposed. Has no network and no clock.
//
// clang-format off
//   Propose ──► awaited ──every host reports the epoch, or a later one──► applied (timed)
//                  │ ────another proposal for the same communicator──────► superseded
//                  └─────its leader reports that a host rejected it──────► rejected
// clang-format on
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STATE_REGISTRY_H_
#define MCCS_CONTROLLER_STATE_REGISTRY_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/cost.h"
#include "base/clock.h"
#include "base/ids.h"
#include "controller/state/host_storage.h"
#include "controller/view/cluster_view.h"
#include "proto/agent.pb.h"
#include "proto/strategy.pb.h"

namespace mccs {

// Identifies one agent connection; unique for the controller's lifetime.
using AgentKey = StrongInt<struct AgentKeyTag, uint64_t>;

// kReady ──stream ended, or timeout──► kLost ──registers again──► kReady
// kRejected: registration failed with an error; the next attempt is checked again. A host that has
// never registered expires (RemoveRejected).
enum class HostState { kReady, kLost, kRejected };

struct HostRecord {
  agent::v1::Host host;
  std::string topology = {};  // that the daemon names; empty: none
  HostState state = HostState::kReady;
  std::string why;              // if kLost or kRejected
  AgentKey agent;               // if kReady
  MonotonicNs since = 0;        // time of the last change of `state`
  MonotonicNs received_at = 0;  // time of the last message
  // Turns of its engine, as of the last heartbeat that says so, and since when.
  std::optional<uint64_t> engine_turns = {};
  MonotonicNs turned_at = 0;
  // If kReady: its heartbeats arrive, but its engine takes no turns.
  bool stuck = false;
  int64_t certificate_end_s = 0;  // Unix time, by the last heartbeat; 0: none, or unknown
  bool registered = false;        // ever; else `host` has only its names and addresses
};

struct CommunicatorRecord {
  agent::v1::Announce announced;  // with the applied strategy, as last reported by the leader
  std::string leader;             // host that announced it
  // Proposals that are neither applied nor rejected, the oldest first.
  std::vector<strategy::Strategy> proposed = {};
  MonotonicNs proposed_at = 0;         // time of the newest proposal
  uint64_t proposed_epoch = 0;         // its epoch
  std::set<std::string> awaited = {};  // hosts that have not reported this epoch or a later one
  std::map<std::string, int> position_of = {};  // of each host in announced.hosts()
  uint64_t newest_epoch = 0;                    // highest epoch that was ever applied or proposed
  std::map<std::string, agent::v1::Report> reports = {};  // by host
  std::optional<CostParameters> costs = {};               // CommunicatorView::costs
  MonotonicNs since = 0;
  uint64_t revision = 0;  // changes whenever Registry::View(id) changes; not 0

  ProcessOrigin origin() const { return {announced.tenant(), announced.cgroup()}; }
  const strategy::Strategy& Applied() const { return announced.strategy(); }
  // The newest proposal, else the applied strategy.
  const strategy::Strategy& Newest() const {
    return proposed.empty() ? announced.strategy() : proposed.back();
  }
};

// Validates a strategy from a daemon or from the store: policies rely on rings that visit each host
// exactly once. kInvalidArgument: no hosts, a duplicate host, no channel, or a ring that is not a
// permutation of the hosts' positions.
absl::Status CheckRings(const google::protobuf::RepeatedPtrField<std::string>& hosts,
                        const strategy::Strategy& strategy);

// Validates a communicator as its leader announces it. kInvalidArgument: no id, fewer ranks than
// hosts, a first rank that is not rank 0 or not on one of the hosts, or as CheckRings.
absl::Status CheckAnnounce(const agent::v1::Announce& announce);

// Histogram of the duration of changes.
struct ConvergenceTimes {
  // Upper bounds in seconds; the last bucket has none.
  static constexpr std::array<double, 12> kBounds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                     1,     3,     10,   30,   100, 300};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum_seconds = 0;

  void Add(double seconds);
  uint64_t count() const;
};

// Proposals since the start, for metrics.
struct ProposalCounts {
  // By policy: the first part of the strategy's origin.
  std::map<std::string, uint64_t> by_policy;
  ConvergenceTimes applied;
  uint64_t superseded = 0;
  uint64_t rejected = 0;
};

// The communicators of a registration that are not listed.
struct Unlisted {
  size_t count = 0;
  absl::Status first = absl::OkStatus();  // why the first one is not; OK: all are listed
};

class Registry {
 public:
  static constexpr size_t kMaxHosts = 16384;         // registered ones
  static constexpr size_t kMaxRejectedHosts = 1024;  // that have never registered
  static constexpr size_t kMaxCommunicators = 65536;
  // Numbers of an agent.v1.Activity; more than a daemon and the scheduler of send windows have.
  static constexpr int kMaxActivitySpans = 4096;

  // Makes the host ready. It leads exactly the communicators in `registration`; others that it led
  // are removed. One that another host leads stays with that host and is not listed for this one:
  // either of the two may lie, and a false leader must not keep the other host out. What exceeds
  // the limits of HostStorage or of the number of communicators is not listed either.
  // kInvalidArgument: no name, or rank 0 of a communicator is on another host. kAlreadyExists:
  // another connected daemon has this name. kResourceExhausted: too many hosts.
  // REQUIRES: CheckAnnounce accepts the communicators, here and for Announce.
  absl::StatusOr<Unlisted> Register(AgentKey agent, const agent::v1::Register& registration,
                                    MonotonicNs now);
  // Records a rejected daemon, unless a ready one has that name or too many are recorded. What the
  // host has registered before is not replaced.
  // REQUIRES: CheckHostSize accepts the registration, and its sender has proven that it is `host`.
  void RecordRejected(const agent::v1::Host& host, const std::string& why, MonotonicNs now);
  // Removes hosts that have never registered and have not tried since before `tried_before`.
  // Returns their names.
  std::vector<std::string> RemoveRejected(MonotonicNs tried_before);
  // REQUIRES for all below: `host` is registered. Messages that do not match (a report on an
  // unknown communicator) are ignored.
  void RecordMessage(const std::string& host, MonotonicNs now);
  // A heartbeat says that the host's engine has taken `turns` turns. It is stuck if the number has
  // been the same for `stuck_after_ns`. Returns true if HostRecord::stuck has changed.
  bool RecordEngineTurns(const std::string& host, uint64_t turns, MonotonicNs now,
                         int64_t stuck_after_ns);
  void SetCertificateEnd(const std::string& host, int64_t end_s) {
    hosts_.at(host).certificate_end_s = end_s;
  }
  void SetGpuSurvey(const std::string& host, agent::v1::GpuSurvey survey);
  // kInvalidArgument: rank 0 is on another host. kAlreadyExists: another host leads it.
  // kResourceExhausted: too many communicators, or a limit of HostStorage.
  absl::Status Announce(const std::string& host, const agent::v1::Announce& announce,
                        MonotonicNs now);
  // Adds `strategy` as a proposal for `id`, with the epoch after its newest one, and returns it.
  // REQUIRES: `id` exists.
  const strategy::Strategy& Propose(CommId id, strategy::Strategy strategy, MonotonicNs now);
  const ProposalCounts& proposal_counts() const { return proposal_counts_; }
  // Drops all proposals: the communicator presumably keeps its strategy.
  void DropProposals(CommId id);
  // Sets the costs that `id` should use. REQUIRES: `id` exists.
  void SetCosts(CommId id, const CostParameters& costs);
  // The time of a report is that of the host's last message.
  struct ReportOutcome {
    // The report as stored; null: it was ignored. LIFETIME: until the registry changes.
    const agent::v1::Report* report = nullptr;
    absl::Status refused = absl::OkStatus();  // it exceeds a limit of HostStorage
    bool rejected = false;      // the leader reports that the newest proposal was rejected
    bool lanes_broken = false;  // connections of lanes have broken since the previous report
  };
  ReportOutcome Report(const std::string& host, agent::v1::Report report);
  // A difference from the previous report. It is ignored if there is none, or if it has more than
  // kMaxActivitySpans.
  ReportOutcome ReportProgress(const std::string& host, const agent::v1::Progress& progress);
  // From the leader: removes the communicator and returns true. From another host: removes only
  // that host's part.
  bool OnCommunicatorEnded(const std::string& host, CommId id);
  void MarkLost(const std::string& host, const std::string& why, MonotonicNs now);
  // Removes communicators whose leader has been lost since before `lost_before`, and returns them:
  // their ranks have ended, or their daemon uses another controller.
  std::vector<CommId> RemoveOrphans(MonotonicNs lost_before);

  const std::map<std::string, HostRecord>& hosts() const { return hosts_; }
  const std::map<CommId, CommunicatorRecord>& communicators() const { return communicators_; }
  ClusterView View() const;
  // The hosts of View().
  std::vector<HostView> HostViews() const;
  // Of one communicator. REQUIRES: `id` exists.
  CommunicatorView View(CommId id) const;
  // Changes whenever the hosts of View() change.
  uint64_t hosts_revision() const { return hosts_revision_; }

 private:
  // Limit of open proposals per communicator; more than a leader ever has.
  static constexpr size_t kMaxProposed = 16;

  // Takes a place for the communicator. Errors as of Announce.
  absl::Status Admit(const std::string& host, const agent::v1::Announce& announce);
  // Whether `report`, of `host`, ends the newest proposal to the communicator.
  void UpdateAwaited(const std::string& host, const agent::v1::Report& report,
                     CommunicatorRecord* record);
  // Call when the view of `record` changes.
  void BumpRevision(CommunicatorRecord* record) { record->revision = ++revision_; }

  std::map<std::string, HostRecord> hosts_;
  size_t unregistered_ = 0;  // of hosts_, that have never registered
  std::map<CommId, CommunicatorRecord> communicators_;
  HostStorage storage_;  // of communicators_
  ProposalCounts proposal_counts_;
  uint64_t hosts_revision_ = 0;
  uint64_t revision_ = 0;  // last one that a communicator was given
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_REGISTRY_H_
