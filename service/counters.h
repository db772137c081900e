// What a daemon has done so far, in numbers by tenant: the engine counts while it works, and the
// thread that serves /metrics reads (service/metrics.h). The engine takes no lock to count, and
// does not notice that it is read (base/counter.h).
//
// OWNER: shared by the Daemon, what it counts for, and whoever reads. THREAD: as each says; "the
// engine" is the one thread that writes.
#ifndef MCCS_SERVICE_COUNTERS_H_
#define MCCS_SERVICE_COUNTERS_H_

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "base/counter.h"
#include "proto/operation.h"

namespace mccs {

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

 private:
  std::map<uint64_t, int> epochs_;  // the engine's alone
};

class DaemonCounters {
 public:
  // Tenants beyond share one entry: a flood of names shall not fill the memory of whoever collects.
  static constexpr size_t kMaxTenants = 1024;
  static constexpr char kOtherTenants[] = "(others)";

  // The entry of `tenant`, made if need be; it stays, so that sums never fall. The lock is held for
  // an insertion. THREAD: the engine.
  std::shared_ptr<TenantCounters> Of(const std::string& tenant);
  // By name. THREAD: any.
  std::map<std::string, std::shared_ptr<const TenantCounters>> Tenants() const;

  Counter turns;       // of the engine
  Counter busy_turns;  // in which anything moved
  Counter sleeps;
  Counter awake_ns;  // what was not slept

 private:
  mutable std::mutex mutex_;  // of insertions into tenants_, and of other threads' looks at it
  std::map<std::string, std::shared_ptr<TenantCounters>> tenants_;
};

// Of `all`; where nobody counts, an entry that nobody reads.
std::shared_ptr<TenantCounters> CountersOf(DaemonCounters* all, const std::string& tenant);

}  // namespace mccs

#endif  // MCCS_SERVICE_COUNTERS_H_
