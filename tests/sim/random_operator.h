// The operators of the random world: they apply and delete objects of all kinds, drawn at random,
// some of which do not hold together and are refused.
#ifndef MCCS_TESTS_SIM_RANDOM_OPERATOR_H_
#define MCCS_TESTS_SIM_RANDOM_OPERATOR_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/objects/object_set.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_control.h"

namespace mccs {

// Tenants t0 … and what daemons call their processes.
inline constexpr int kRandomTenants = 3;
std::string RandomTenantCalled(uint64_t tenant);

class RandomOperator {
 public:
  // LIFETIME: `control` and `counts` outlive it.
  RandomOperator(SimControl& control, std::vector<std::string> racks,
                 std::vector<std::string> addresses, RandomCounts& counts)
      : control_(control),
        racks_(std::move(racks)),
        addresses_(std::move(addresses)),
        counts_(counts) {}

  // Applies or deletes something. `communicators`: those that a Policy may be for. What was wrong
  // with how it was taken; empty: nothing.
  std::string Act(const std::vector<CommId>& communicators, std::mt19937_64& random);

  // Whether a Tenant has had a quota at any time.
  bool has_set_quotas() const { return has_set_quotas_; }

 private:
  std::string Apply(const std::string& text);
  std::string Undrain(std::mt19937_64& random);
  bool Keep(ObjectSet next);
  std::string SomeDocument(const std::vector<CommId>& communicators, std::mt19937_64& random);
  std::string Beginning() const;
  std::string Topology() const;
  std::string SomeTenant(std::mt19937_64& random);
  std::string SomePolicy(const std::vector<CommId>& communicators, std::mt19937_64& random) const;
  std::string SomeDrain(std::mt19937_64& random) const;
  std::string SomePolicySpec(std::mt19937_64& random) const;
  void Count(const Object& object);

  SimControl& control_;
  const std::vector<std::string> racks_, addresses_;  // by host
  RandomCounts& counts_;
  bool has_set_quotas_ = false;
  bool has_begun_ = false;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_OPERATOR_H_
