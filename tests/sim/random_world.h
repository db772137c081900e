// One random run of the whole system: daemons, controller, agents and tenants in one thread, all
// that happens drawn from one seed. Jobs of several ranks call collectives and messages at their
// own pace, while operators apply policies, lanes break, hosts are parted for a while, agents lose
// their streams, the controller dies and comes back, and now and then a daemon dies for good.
#ifndef MCCS_TESTS_SIM_RANDOM_WORLD_H_
#define MCCS_TESTS_SIM_RANDOM_WORLD_H_

#include <cstdint>
#include <string>

namespace mccs {

struct RandomWorldOutcome {
  // What was not as it must be; empty: all was. Every operation gives the right numbers on every
  // rank, bit for bit, and nothing beside them is written; an operation begins a new epoch on all
  // hosts or on none; nobody waits for ever; only what depends on a dead daemon fails; in the end
  // every communicator runs what the controller wants.
  std::string violation;
  uint64_t operations = 0;  // that were checked
  uint64_t changes = 0;     // of strategy, of one communicator each
};

RandomWorldOutcome RunRandomWorld(uint64_t seed);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_WORLD_H_
