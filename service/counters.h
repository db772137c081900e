// Counters of a daemon, by tenant. The engine counts while it works; the thread that serves
// /metrics reads them (service/metrics.h). The engine takes no lock to count and is not slowed by
// readers (base/counter.h).
//
// A tenant's counters have the name of its Tenant object, where one selects the processes. A
// process may be mapped to another tenant while it runs. Counters then keep what was counted under
// the old name and count under the new one; gauges move to the new name.
//
// clang-format off
//   entry of an origin, while in use ───── renamed, or no longer in use ──────────────► settled
//        └──────────────────── sum by name: what is read ◄───────────────────────────────────┘
// clang-format on
//
// OWNER: shared by the Daemon, the objects that it counts for, and readers. THREAD: as stated at
// each function; "the engine" is the one thread that writes.
#ifndef MCCS_SERVICE_COUNTERS_H_
#define MCCS_SERVICE_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/counter.h"
#include "proto/operation.h"
#include "proto/tenant_selector.h"
#include "service/resource.h"
#include "service/stalls.h"
#include "service/transport/peer_listener_counters.h"

namespace mccs {

class TenantAccount;

// Why a communicator failed, as reported to its ranks (service/error_class.h): wire::ErrorClass.
inline constexpr size_t kFailureClasses = 7;
const char* FailureName(size_t error_class);
size_t FailureClassOf(const absl::Status& why);

// Reasons for which a lane may wait (LaneWait).
inline constexpr size_t kLaneWaits = 4;

// Counters of one tenant on this host.
struct TenantCounters {
  struct Work {
    Counter operations;
    Counter bytes;  // of the calls: count × size of type
  };
  // One direction of all lanes.
  struct Lanes {
    Counter bytes;
    Counter reconnects;
    Counter copied_bytes;  // LaneCounters::copied_bytes
    std::array<Counter, kLaneWaits>
        wait_ns;  // by LaneWait (service/transport/lane.h); added at its end
  };

  std::array<Work, kOpKinds> work;
  std::array<Counter, kFailureClasses> failures;  // of communicators
  Gauge forming, active, failed;                  // communicators
  Gauge sessions;
  Gauge buffers, buffer_bytes;              // registered by its processes
  std::array<Gauge, kResources> held;       // by Resource
  std::array<Counter, kResources> refused;  // requests
  Counter turn_cost;                        // of its communicators (turn_cost.h)
  Lanes sent, received;
  Counter changes_done, changes_rejected;  // of strategies
  Gauge highest_epoch;                     // of its active communicators

  // Count the active communicators by epoch. THREAD: the engine.
  void EnterEpoch(uint64_t epoch);
  void LeaveEpoch(uint64_t epoch);

  // Adds all numbers to those of `sum`; of the two highest epochs, `sum` takes the higher.
  void AddTo(TenantCounters* sum) const;
  // Adds the counters to `sum` and resets them to 0. THREAD: the engine.
  void MoveCountersTo(TenantCounters* sum);

 private:
  std::map<uint64_t, int> epochs_;  // used by the engine only
};

class DaemonCounters {
 public:
  // Tenants beyond this number share one name, which bounds the memory of the metrics collector.
  static constexpr size_t kMaxTenants = 1024;
  static constexpr char kOtherTenants[] = "(others)";

  // Returns the entry of processes of this origin, which counts for `name`; creates it if needed.
  // Locks only to insert. THREAD: the engine.
  std::shared_ptr<TenantCounters> Of(const ProcessOrigin& origin, const std::string& name);
  // The same for processes without a Tenant, under the daemon's own name for them.
  std::shared_ptr<TenantCounters> Of(const std::string& tenant) { return Of({tenant, ""}, tenant); }
  // Changes the names under which all entries count. THREAD: the engine.
  void Rename(const std::function<std::string(const ProcessOrigin&)>& name_of);
  // Sums by name. Counters never decrease. THREAD: any.
  std::map<std::string, std::shared_ptr<const TenantCounters>> Tenants() const;

  Counter turns;       // of the engine
  Counter busy_turns;  // that made progress
  Counter sleeps;
  Counter awake_ns;  // time that the engine did not sleep, up to its last turn
  Gauge asleep;      // 1 while the engine waits in its reactor, else 0
  // Rosters and strategies, by receiving host, that the tree of daemons dropped (tree_relay.h).
  Counter relay_dropped;
  Gauge open_sockets, failed_sockets;    // that Tenants declare
  Counter denied_processes;              // of unknown tenants
  std::array<Gauge, kResources> limits;  // of all tenants together, by Resource
  PeerListenerCounters peers;
  Stalls stalls;

  // Of all RDMA devices (TransportCounters).
  struct Rdma {
    Gauge devices;
    Gauge queue_pairs;
    Gauge registered_regions;
    Gauge registered_bytes;
    Counter requests;
    Counter completions;
    Counter receives;
    Counter refills;
  } rdma;

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<TenantCounters> counters;
  };
  // Returns `name`, or kOtherTenants, and adds it to settled_.
  std::string ReserveName(const std::string& name);

  mutable std::mutex mutex_;  // for the engine's changes of the maps and for other threads' reads
  std::map<ProcessOrigin, Entry> entries_;
  std::map<std::string, TenantCounters> settled_;  // by name; counters only
};

// Counters in `all` for processes of `account`; if null, for those that the daemon calls `tenant`.
// If `all` is null, returns counters that no one reads.
std::shared_ptr<TenantCounters> CountersOf(DaemonCounters* all, const TenantAccount* account,
                                           const std::string& tenant);

struct KindWork {
  uint64_t operations = 0;
  uint64_t bytes = 0;  // of the calls: count × size of type
};

// By OpKind.
using WorkByKind = std::array<KindWork, kOpKinds>;

// Work of one communicator on this host, by kind of call; also added to its tenant's counters.
//
// OWNER: the Communicator. THREAD: the owning engine.
class WorkTally {
 public:
  explicit WorkTally(std::shared_ptr<TenantCounters> tenant) : tenant_(std::move(tenant)) {}

  // Counts one completed operation.
  void Count(OpKind kind, uint64_t bytes) {
    const auto index = static_cast<size_t>(kind);
    ++calls_;
    ++work_[index].operations;
    work_[index].bytes += bytes;
    tenant_->work[index].operations.Add(1);
    tenant_->work[index].bytes.Add(bytes);
  }
  const WorkByKind& work() const { return work_; }
  // Of all kinds.
  uint64_t calls() const { return calls_; }

 private:
  const std::shared_ptr<TenantCounters> tenant_;
  WorkByKind work_ = {};
  uint64_t calls_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COUNTERS_H_
