// What a daemon has done so far, in numbers by tenant: the engine counts while it works, and the
// thread that serves /metrics reads (service/metrics.h). The engine takes no lock to count, and
// does not notice that it is read (base/counter.h).
//
// Tenants go by the names of operators' Tenants, where one has the processes. Whose processes are
// may change while they run: what was counted stays with the name under which it was counted, what
// comes counts for the other, and what they have (gauges) moves with them.
//
//   entry of an origin, while somebody counts for it ─── renamed, or nobody any more ──► settled
//        └──────────────────── sum by name: what is read ◄───────────────────────────────────┘
//
// OWNER: shared by the Daemon, what it counts for, and whoever reads. THREAD: as each says; "the
// engine" is the one thread that writes.
#ifndef MCCS_SERVICE_COUNTERS_H_
#define MCCS_SERVICE_COUNTERS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "base/counter.h"
#include "proto/operation.h"
#include "proto/tenant_who.h"

namespace mccs {

class TenantAccount;

// Why a communicator failed, as its ranks are told (service/error_class.h): by wire::ErrorClass.
inline constexpr size_t kFailureClasses = 7;
const char* NameOfFailure(size_t error_class);
size_t FailureClassOf(const absl::Status& why);

// What a lane may wait for (LaneWait).
inline constexpr size_t kLaneWaits = 4;

// Of one tenant on this host.
struct TenantCounters {
  struct Work {
    Counter operations;
    Counter bytes;  // the calls' own: count × size of type
  };
  // One direction of all lanes.
  struct Lanes {
    Counter bytes;
    Counter reconnects;
    std::array<Counter, kLaneWaits> wait_ns;  // by LaneWait (service/transport/lane.h), once over
  };

  std::array<Work, kOpKinds> work;
  std::array<Counter, kFailureClasses> failures;  // of communicators
  Gauge forming, active, failed;                  // communicators
  Gauge sessions;
  Gauge buffers, buffer_bytes;  // that its processes have offered
  Lanes sent, received;
  Counter changes_done, changes_dropped;  // of strategies
  Gauge highest_epoch;                    // in force, of its active communicators

  // Which epochs are in force. THREAD: the engine.
  void EnterEpoch(uint64_t epoch);
  void LeaveEpoch(uint64_t epoch);

  // Adds all numbers to those of `sum`; of epochs the higher counts.
  void AddTo(TenantCounters* sum) const;
  // Counters count from 0 again, and what they were is added to `sum`. THREAD: the engine.
  void MoveCountersTo(TenantCounters* sum);

 private:
  std::map<uint64_t, int> epochs_;  // the engine's alone
};

class DaemonCounters {
 public:
  // Names beyond share one: a flood of them shall not fill the memory of whoever collects.
  static constexpr size_t kMaxTenants = 1024;
  static constexpr char kOtherTenants[] = "(others)";

  // The entry of processes of this origin, made if need be, which counts for `name`. The lock is
  // held for an insertion. THREAD: the engine.
  std::shared_ptr<TenantCounters> Of(const ProcessOrigin& origin, const std::string& name);
  // Of those whose name is what the daemon calls them.
  std::shared_ptr<TenantCounters> Of(const std::string& tenant) { return Of({tenant, ""}, tenant); }
  // From now on all count for these names. THREAD: the engine.
  void Rename(const std::function<std::string(const ProcessOrigin&)>& name_of);
  // Sums by name, which never fall. THREAD: any.
  std::map<std::string, std::shared_ptr<const TenantCounters>> Tenants() const;

  Counter turns;       // of the engine
  Counter busy_turns;  // in which anything moved
  Counter sleeps;
  Counter awake_ns;  // what was not slept

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<TenantCounters> counters;
  };
  // `name`, or kOtherTenants; it has a place in settled_ from then on.
  std::string Place(const std::string& name);

  mutable std::mutex mutex_;  // of the engine's changes of the maps, and of others' looks at them
  std::map<ProcessOrigin, Entry> entries_;
  std::map<std::string, TenantCounters> settled_;  // by name; only counters
};

// Of `all`, for processes with `account`; null: of those that the daemon calls `tenant`. Where
// nobody counts, an entry that nobody reads.
std::shared_ptr<TenantCounters> CountersOf(DaemonCounters* all, const TenantAccount* account,
                                           const std::string& tenant);

}  // namespace mccs

#endif  // MCCS_SERVICE_COUNTERS_H_
