// One random run of the whole system: daemons, controller, agents and tenants in one thread, all
// that happens drawn from one seed. Jobs of several ranks and Tenants call collectives and messages
// at their own pace. Meanwhile operators apply Policies of all kinds, Tenants with shares,
// priorities and quotas, drains and undrains, some of which do not hold together; lanes break,
// hosts are parted for a while, agents lose their streams, the controller dies and comes back. In
// some worlds daemons die and others start in their place, processes die, and new jobs come; and to
// most come hostile tenants, with processes and peer daemons that lie in every protocol (liar.h).
//
// What must hold:
// - Every operation of a job that loses no rank gives the right numbers on every rank, bit for bit,
//   and nothing beside them is written; no such job fails.
// - An operation begins a new epoch on all hosts or on none.
// - Nobody waits for ever. Where a job loses a rank, all others have an error within kErrorBoundNs:
//   at once if its daemon died, and if its process died as soon as they call something that it has
//   not called.
// - A job is refused only for a quota, where a Tenant has had one; a request of operators only
//   because it does not hold together, and then nothing changes.
// - In the end every communicator runs what the controller wants, and its rings' lanes leave from
//   the source ports that it wants; daemons and the controller know of no communicator and no
//   process that is not there.
// - A hostile party harms nothing but its own: the jobs beside it do as if it were not there, no
//   byte of memory that is not its own changes or comes to it, no daemon dies or spends more than
//   kLongestTurnNs of a core in one turn, and when it has gone, no daemon has anything of it.
//
// Not in here: source ports that are found by probing, NICs that fail, captured graphs, one-sided
// calls.
#ifndef MCCS_TESTS_SIM_RANDOM_WORLD_H_
#define MCCS_TESTS_SIM_RANDOM_WORLD_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "tests/sim/random_counts.h"

namespace mccs {

inline constexpr int64_t kErrorBoundNs = 1 * kNsPerSec;
// Of real time; sanitizers make it longer.
inline constexpr int64_t kLongestTurnNs = 500 * kNsPerMs;

struct RandomWorldOutcome {
  std::string violation;  // what was not as it must be; empty: all was
  RandomCounts counts;
};

struct RandomWorldOptions {
  bool liars = true;
};

RandomWorldOutcome RunRandomWorld(uint64_t seed, const RandomWorldOptions& options = {});

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_WORLD_H_
