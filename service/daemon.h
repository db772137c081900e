// The whole daemon, given its time, randomness, network, device, controller and tenants: what
// main.cc runs on sockets, the simulator runs in memory, two and more in one thread.
//
// THREAD: the engine: one thread calls everything. Never blocks.
#ifndef MCCS_SERVICE_DAEMON_H_
#define MCCS_SERVICE_DAEMON_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/random.h"
#include "service/communicator/communicator_table.h"
#include "service/communicator/rendezvous.h"
#include "service/counters.h"
#include "service/frontend/frontend.h"
#include "service/state_dump.h"
#include "service/tenant_ledger.h"
#include "service/transport/network.h"
#include "service/transport/peer_listener.h"

namespace mccs {

// LIFETIME: everything pointed to outlives the daemon.
struct DaemonParts {
  const Clock* clock = nullptr;
  Random* random = nullptr;
  Log* log = nullptr;
  Network* network = nullptr;
  Transport* transport = nullptr;
  Device* device = nullptr;
  ControllerLink* controller = nullptr;
};

struct DaemonOptions {
  Position position;   // pod, rack, name of this host
  Endpoint listen;     // for peers; port 0: the system's choice
  Endpoint advertise;  // where peers reach us; empty host: as `listen`, port 0: the one listened on
  int channels = 1;    // of the default strategy, for communicators over several hosts
  LaneShape lanes;
  uint32_t skew = 1;
  ChoiceParameters algorithms;
  BufferLimits buffers;
  Markings markings = {};
};

// Meeting places of one tenant's NCCL_COMM_IDs at a time.
inline constexpr int kMaxEnvironmentDoorsPerTenant = 64;

class Daemon {
 public:
  // Listens for peers. An address in use is a Status.
  static absl::StatusOr<std::unique_ptr<Daemon>> Make(const DaemonParts& parts,
                                                      const DaemonOptions& options);

  // Waits for the work that is in the device: it uses tenants' memory.
  ~Daemon();

  void AddDoor(std::unique_ptr<TenantDoor> door) { frontend_->AddDoor(std::move(door)); }

  // One turn: the table of contents of everything that a daemon does. `woken`: the engine slept and
  // a descriptor ended the sleep. True when anything moved.
  bool Poll(bool woken = false);

  // How the engine may wait after a turn in which nothing moved.
  Urgency urgency() const { return communicators_->urgency(); }
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;
  // Brackets a sleep. PrepareSleep is true if there is work after all: do not sleep then.
  bool PrepareSleep() { return frontend_->PrepareSleep(); }
  void EndSleep() { frontend_->EndSleep(); }

  // What it has done so far; may be read by any thread, and outlive the daemon.
  std::shared_ptr<DaemonCounters> counters() const { return counters_; }

  // Where peers reach this daemon.
  const Endpoint& endpoint() const { return environment_.endpoint; }
  size_t sessions() const { return frontend_->sessions(); }
  size_t communicators() const { return communicators_->size(); }
  // As CommunicatorTable's.
  uint64_t TurnsOf(CommId communicator) const { return communicators_->TurnsOf(communicator); }

 private:
  // Where the ranks of a NCCL_COMM_ID meet, while they do.
  struct EnvironmentDoor {
    CommId meeting;
    std::string tenant;
    std::unique_ptr<PeerListener> listener;
  };

  Daemon(const DaemonParts& parts, const DaemonOptions& options);
  absl::StatusOr<std::unique_ptr<PeerListener>> Listen(const Endpoint& at);
  absl::Status HostEnvironmentId(const wire::UniqueId& id, const std::string& tenant);
  bool PollDoors();
  bool PollQuestions();
  bool PollTenants();

  const DaemonParts parts_;
  const std::shared_ptr<DaemonCounters> counters_ = std::make_shared<DaemonCounters>();
  HostPacing pacing_;
  CommunicatorEnvironment environment_;
  TenantLedger ledger_;
  BufferQuota buffer_quota_;
  LimitedWarnings tenant_warnings_;
  SessionEnvironment session_environment_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<CommunicatorTable> communicators_;
  std::unique_ptr<Frontend> frontend_;
  std::unique_ptr<PeerListener> listener_;  // for peers
  std::vector<EnvironmentDoor> environment_doors_;
  std::optional<StateDump> dump_;  // that is being gathered
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DAEMON_H_
