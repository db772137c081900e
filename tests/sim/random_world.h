// One random run of the whole system: daemons, controller, agents and tenants in one thread, with
// all events drawn from one seed. Jobs of several ranks and Tenants call collectives and messages
// at their own limits. At the same time:
// - Operators apply Policies of all kinds, Tenants with shares, priorities and quotas, drains and
//   undrains; some of them conflict.
// - Lanes break, hosts are partitioned for a while, agents lose their streams, the controller dies
//   and restarts.
// - In some worlds daemons die and others replace them, processes die, and new jobs start.
// - In half of the worlds hosts run out of descriptors or memory, disks of the controller and the
//   daemons are full or fail to sync, these programs die in a write, clocks jump, and the network
//   loses one direction (random_faults.h).
// - Most worlds have hostile tenants, whose processes and peer daemons violate every protocol
//   (hostile_tenant.h). In half of the worlds the daemons have certificates: then the hostile peers
//   are daemons of the cluster that lie, or programs without a certificate.
//
// Invariants:
// - Every operation of a job that loses no rank gives the right result on every rank, bit for bit,
//   and writes nothing outside its output; no such job fails.
// - An operation is the first of a new epoch on all hosts or on none.
// - No rank waits forever. If a job loses a rank, all others get an error within kErrorBoundNs: at
//   once if its daemon died; if its process died, when they call an operation that the dead rank
//   has not called.
// - A job is rejected only for a quota, in worlds where a Tenant has had one. An operator's request
//   is rejected only for a conflict or a failing disk, and then changes nothing. After a failed
//   sync the next controller may have the change all the same.
// - A job that meets a fault is not affected, or all its ranks get an error within kErrorBoundNs,
//   and the first one names the resource. No other job is affected. Jobs that start after the fault
//   succeed.
// - A controller has exactly the changes that its store has accepted. If the one before died in a
//   commit, it has all of that change or nothing.
// - A daemon starts with the table of Tenants that was kept last. If the one before died
//   in a write, it may have the new one.
// - In the end every communicator runs the strategy that the controller wants, and the lanes of its
//   rings leave from the wanted source ports; daemons and the controller have no state of ended
//   communicators or processes.
// - A hostile tenant harms only itself. Other jobs are not affected, no byte of other tenants'
//   memory is written or read, no daemon dies or uses more than kLongestTurnNs of a core in one
//   turn, and no daemon has any state of the tenant after it left. Without a certificate that the
//   daemons demand, it gets no link and no lane.
//
// Not covered: source ports found by probing, NIC failures, captured graphs, one-sided calls.
#ifndef MCCS_TESTS_SIM_RANDOM_WORLD_H_
#define MCCS_TESTS_SIM_RANDOM_WORLD_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "tests/sim/random_counts.h"

namespace mccs {

inline constexpr int64_t kErrorBoundNs = 1 * kNsPerSec;
// In real time; sanitizers take longer.
inline constexpr int64_t kLongestTurnNs = 500 * kNsPerMs;

struct RandomWorldOutcome {
  std::string violation;  // the violated invariant; empty: none
  RandomCounts counts;
};

struct RandomWorldOptions {
  bool hostile_tenants = true;
  bool certificates = true;  // in half of the worlds the daemons have certificates
  bool faults = true;        // RandomFaults
  bool verbs = false;        // lanes use RDMA on fake NICs
  bool kernels = false;      // kernels of the tenants run plans
};

RandomWorldOutcome RunRandomWorld(uint64_t seed, const RandomWorldOptions& options = {});

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_WORLD_H_
