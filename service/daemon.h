// The whole daemon with its clock, randomness, network, device, controller and tenants injected:
// main.cc runs it on sockets, the simulator runs several of them in memory in one thread.
//
// THREAD: the engine: one thread calls everything. Never blocks.
#ifndef MCCS_SERVICE_DAEMON_H_
#define MCCS_SERVICE_DAEMON_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/random.h"
#include "proto/daemon_state.pb.h"
#include "service/communicator/communicator_table.h"
#include "service/communicator/links/host_reachability.h"
#include "service/communicator/membership/id_keys.h"
#include "service/communicator/membership/named_rendezvous.h"
#include "service/communicator/membership/rendezvous.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/counters.h"
#include "service/frontend/declared_sockets.h"
#include "service/frontend/frontend.h"
#include "service/tenant_ledger.h"
#include "service/transport/network.h"
#include "service/transport/peer_listener.h"

namespace mccs {

// The daemon's state for an operator, collected a few parts per turn so that it does not delay
// other work.
//
// OWNER: the Daemon. THREAD: the owning engine. Never blocks.
class StateDump {
 public:
  // Parts of sessions, and communicators, per turn: some tens of microseconds.
  static constexpr int kPartsPerTurn = 4;
  // Of the answer; parts that do not fit are only counted. gRPC's limit is 4 MiB.
  static constexpr size_t kMaxBytes = 2u << 20;

  // `first`: the part of the state that is known at once.
  StateDump(uint64_t request_id, state::Daemon first)
      : request_id_(request_id), state_(std::move(first)) {}

  // Collects a few more parts. Returns true when the state is complete.
  bool Continue(const Frontend& frontend, const CommunicatorTable& communicators);

  uint64_t request_id() const { return request_id_; }
  const state::Daemon& state() const { return state_; }

 private:
  bool Fits(size_t bytes);
  void AddPart(state::Session part);

  const uint64_t request_id_;
  state::Daemon state_;
  size_t bytes_ = 0;
  // The last ones collected; sessions come first.
  Frontend::StateCursor session_;
  bool sessions_done_ = false;
  uint64_t left_out_ = 0;  // the last session that was left out
  uint64_t communicator_ = 0;
};

// LIFETIME: everything pointed to outlives the daemon.
struct DaemonParts {
  const Clock* clock = nullptr;
  Random* random = nullptr;
  Log* log = nullptr;
  Network* network = nullptr;
  Transport* transport = nullptr;
  // Null: communicators do not use RDMA. REQUIRES: the daemon listens at all its addresses.
  Transport* rdma = nullptr;
  PeerSecurity* security = nullptr;  // null: this host has no certificate
  Device* device = nullptr;
  ControllerLink* controller = nullptr;
  SocketDirectory* sockets = nullptr;  // of Tenants; null: they may declare none
};

struct DaemonOptions {
  Position position;   // pod, rack, name of this host
  Endpoint listen;     // for peers; port 0: the system's choice
  Endpoint advertise;  // for peers; empty host: as `listen`; port 0: the port listened on
  int channels = 1;    // of the default strategy, for communicators over several hosts
  LaneShape lanes;
  uint32_t skew = 1;
  ChoiceParameters algorithms;
  BufferLimits buffers;
  HostLimits limits;  // of all tenants together
  DscpMap dscp_by_class = {};
  bool requires_rdma = false;  // CommunicatorEnvironment::requires_rdma
  bool denies_unknown_tenants = false;
  // The controller gives a key for unique ids. Until it arrives, the daemon takes only its own ids.
  bool expects_id_key = false;
};

// Listeners for NCCL_COMM_IDs that one tenant may have open at a time.
inline constexpr int kMaxEnvironmentListenersPerTenant = 64;

// In the log, about the communicators of one tenant: a job has some tens.
inline constexpr int kCommunicatorLinesPerMinute = 128;

class Daemon {
 public:
  // Listens for peers. Returns an error if the address is in use.
  static absl::StatusOr<std::unique_ptr<Daemon>> Make(const DaemonParts& parts,
                                                      const DaemonOptions& options);

  // Waits for the operations that run in the device, because they use tenants' memory.
  ~Daemon();

  void AddListener(std::unique_ptr<TenantListener> listener) {
    frontend_->AddListener(std::move(listener));
  }

  // Runs one turn; its body lists everything that a daemon does. `woken`: a descriptor ended the
  // engine's sleep. Returns true if the turn made progress.
  bool Poll(bool woken = false);

  // How the engine may wait after a turn without progress.
  Urgency urgency() const { return communicators_->urgency(); }
  // The time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // Bracket a sleep. If PrepareSleep returns true, there is work: do not sleep.
  bool PrepareSleep();
  void EndSleep() { frontend_->EndSleep(); }

  // As DaemonOptions::denies_unknown_tenants, for processes that connect later. THREAD: any.
  void DenyUnknownTenants(bool denies) { denies_unknown_tenants_.store(denies); }

  // Readable by any thread; may outlive the daemon.
  std::shared_ptr<DaemonCounters> counters() const { return counters_; }

  // The address at which peers connect to this daemon.
  const Endpoint& endpoint() const { return environment_.endpoint; }
  // Processes are asked for the dma-bufs of their memory.
  bool wants_dma_bufs() const { return session_environment_.wants_dma_bufs; }
  // TenantAccount::counted_as() of a process.
  std::string CountedAs(const ProcessOrigin& origin) {
    return ledger_.AccountOf(origin)->counted_as();
  }
  size_t sessions() const { return frontend_->sessions(); }
  size_t communicators() const { return communicators_->size(); }
  // By all tenants.
  uint64_t held(Resource resource) const { return budget_.held(resource); }
  // See CommunicatorTable::TurnsOf.
  uint64_t TurnsOf(CommId communicator) const { return communicators_->TurnsOf(communicator); }

 private:
  // The listener of the rendezvous of a NCCL_COMM_ID, while ranks join.
  struct EnvironmentListener {
    CommId rendezvous;
    std::string tenant;
    BudgetShare descriptor;
    std::unique_ptr<PeerListener> listener;
  };

  Daemon(const DaemonParts& parts, const DaemonOptions& options);
  absl::StatusOr<std::unique_ptr<PeerListener>> Listen(const Endpoint& at);
  absl::Status ListenForEnvironmentId(const wire::UniqueId& id, const std::string& tenant,
                                      const std::shared_ptr<TenantResources>& budget);
  bool PollListeners();
  bool PollStateRequests();
  bool PollRdma();
  bool PollTenants();

  const DaemonParts parts_;
  const std::shared_ptr<DaemonCounters> counters_ = std::make_shared<DaemonCounters>();
  HostPacing pacing_;
  HostReachability reachability_;
  CommunicatorEnvironment environment_;
  TenantLedger ledger_;
  IdKeys id_keys_;
  HostBudget budget_;
  BufferQuota buffer_quota_;
  LimitedWarnings tenant_warnings_;
  LimitedWarnings communicator_lines_;
  std::atomic<bool> denies_unknown_tenants_{false};
  SessionEnvironment session_environment_;
  std::unique_ptr<Rendezvous> rendezvous_;
  NamedRendezvous named_;
  TreeRelay relay_{environment_.access, *parts_.log, counters_.get()};
  std::unique_ptr<CommunicatorTable> communicators_;
  std::unique_ptr<Frontend> frontend_;
  std::unique_ptr<DeclaredSockets> declared_sockets_;
  std::unique_ptr<PeerListener> listener_;  // for peers
  std::vector<EnvironmentListener> environment_listeners_;
  std::optional<StateDump> dump_;  // in progress
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DAEMON_H_
