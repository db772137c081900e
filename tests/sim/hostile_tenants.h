// The hostile tenants of one random world: when they start, act and leave, and whether any of their
// state remains.
#ifndef MCCS_TESTS_SIM_HOSTILE_TENANTS_H_
#define MCCS_TESTS_SIM_HOSTILE_TENANTS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/hostile_tenant.h"

namespace mccs {

class HostileTenants {
 public:
  // LIFETIME: `world` and `counts` outlive it, and the world does not run after its end.
  HostileTenants(SimWorld& world, uint64_t seed, RandomCounts& counts);

  // May start a hostile tenant on some of these hosts; each existing one may act.
  void Act(const std::vector<int>& hosts);
  // The daemon of a host has ended.
  void OnDaemonDied(int host);
  // All hostile tenants end, and no other starts.
  void Leave();

  // Their connections, processes, communicators and buffers that some daemon still has; empty:
  // none.
  // REQUIRES: Leave() was called.
  std::string FindRemainingState() const;
  // The first access to other tenants' memory; empty: none.
  std::string FindViolation() const;

 private:
  SimWorld& world_;
  RandomCounts& counts_;
  Dice dice_;
  uint64_t expected_;  // how many may still start
  std::deque<HostileTenant> hostile_tenants_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_HOSTILE_TENANTS_H_
