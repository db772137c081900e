// What the controller knows: hosts whose agents registered, and their communicators. No network, no
// clock.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_REGISTRY_H_
#define MCCS_CONTROLLER_REGISTRY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/cost.h"
#include "base/clock.h"
#include "base/ids.h"
#include "controller/cluster_view.h"
#include "proto/agent.pb.h"

namespace mccs {

// One connection of an agent, unique for the controller's life.
using AgentKey = StrongInt<struct AgentKeyTag, uint64_t>;

// kReady ──connection gone, or silent──► kLost ──registers again──► kReady
// kRefused: it tried and was told why; the next attempt decides anew.
enum class HostState { kReady, kLost, kRefused };

struct HostRecord {
  agent::Host host;
  std::string topology = {};  // in which it says that it stands; empty: it does not say
  HostState state = HostState::kReady;
  std::string why;        // kLost, kRefused
  AgentKey agent;         // kReady
  MonotonicNs since = 0;  // when the state was entered
  MonotonicNs heard = 0;  // last message
};

struct CommunicatorRecord {
  agent::Announce announced;  // its strategy: the one in force, as the leader said last
  std::string leader;         // name of the host that announced it
  // What it was told since: neither in force nor given up, the oldest first.
  std::vector<strategy::Strategy> proposed = {};
  MonotonicNs proposed_at = 0;                        // the newest of them
  uint64_t newest_epoch = 0;                          // that it ever had or was told
  std::map<std::string, agent::Report> reports = {};  // by host
  std::optional<CostParameters> costs = {};           // CommunicatorView's
  MonotonicNs since = 0;
  uint64_t revision = 0;  // another one whenever Registry::View(id) is another one; not 0

  ProcessOrigin origin() const { return {announced.tenant(), announced.cgroup()}; }
  const strategy::Strategy& InForce() const { return announced.strategy(); }
  // What it runs, or soon will.
  const strategy::Strategy& Newest() const {
    return proposed.empty() ? announced.strategy() : proposed.back();
  }
};

class Registry {
 public:
  static constexpr size_t kMaxHosts = 16384;
  static constexpr size_t kMaxCommunicators = 65536;

  // The host is ready, leads just the communicators of `registration`, and what it led before is
  // forgotten. kInvalidArgument: no name, or a communicator that is none. kAlreadyExists: another
  // daemon is connected under this name, or leads one of them. kResourceExhausted: too many hosts.
  absl::Status Register(AgentKey agent, const agent::Register& registration, MonotonicNs now);
  // Notes a daemon that was turned away, unless a ready one has that name.
  void NoteRefused(const agent::Host& host, const std::string& why, MonotonicNs now);
  // REQUIRES for all below: `host` is registered. What does not fit (a report on an unknown
  // communicator) is ignored.
  void Heard(const std::string& host, MonotonicNs now);
  absl::Status Announce(const std::string& host, const agent::Announce& announce, MonotonicNs now);
  // `id` gets `strategy`, as the epoch after all that it had, which is returned with it. REQUIRES:
  // a communicator.
  const strategy::Strategy& Propose(CommId id, strategy::Strategy strategy, MonotonicNs now);
  // Nothing came of what was proposed: as far as is known it runs on as it did.
  void GiveUpProposals(CommId id);
  // From now on `id` is to go by these. REQUIRES: a communicator.
  void SetCosts(CommId id, const CostParameters& costs);
  // True where the leader gave the newest proposal up.
  bool Report(const std::string& host, const agent::Report& report);
  // The leader's word ends the communicator; another host's only its own part.
  void Ended(const std::string& host, CommId id);
  void Lose(const std::string& host, const std::string& why, MonotonicNs now);
  // Forgets communicators whose leader has been lost since before `lost_before`, and returns them:
  // their ranks are gone, or their daemon has another controller.
  std::vector<CommId> ForgetOrphans(MonotonicNs lost_before);

  const std::map<std::string, HostRecord>& hosts() const { return hosts_; }
  const std::map<CommId, CommunicatorRecord>& communicators() const { return communicators_; }
  ClusterView View() const;
  // The hosts of that.
  std::vector<HostView> HostViews() const;
  // Of that one alone. REQUIRES: a communicator.
  CommunicatorView View(CommId id) const;
  // Another number whenever View()'s hosts are others.
  uint64_t hosts_revision() const { return hosts_revision_; }

 private:
  // Proposals of one communicator that may yet come into force: more than a leader ever has.
  static constexpr size_t kMaxProposed = 16;

  // kAlreadyExists: another host leads it.
  absl::Status CheckLeader(const std::string& host, const agent::Announce& announce) const;
  // Its view is another one.
  void Changed(CommunicatorRecord* record) { record->revision = ++revision_; }

  std::map<std::string, HostRecord> hosts_;
  std::map<CommId, CommunicatorRecord> communicators_;
  uint64_t hosts_revision_ = 0;
  uint64_t revision_ = 0;  // the last one that a communicator was given
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_REGISTRY_H_
