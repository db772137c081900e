// The operators of the random world: they apply and delete random objects of all kinds, some of
// which conflict and are rejected.
#ifndef MCCS_TESTS_SIM_RANDOM_OPERATOR_H_
#define MCCS_TESTS_SIM_RANDOM_OPERATOR_H_

#include <random>
#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/objects/object.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_control.h"

namespace mccs {

// Number of Tenants (t0, t1, …), and the name that daemons give their processes.
inline constexpr int kRandomTenants = 3;
std::string RandomTenantProcessName(uint64_t tenant);

class RandomOperator {
 public:
  // LIFETIME: `control` and `counts` outlive it.
  RandomOperator(SimControl& control, std::vector<std::string> racks,
                 std::vector<std::string> addresses, RandomCounts& counts)
      : control_(control),
        racks_(std::move(racks)),
        addresses_(std::move(addresses)),
        counts_(counts) {}

  // Applies or deletes an object. `communicators`: those that a Policy may select. Returns an error
  // that must not happen; empty: none.
  std::string Act(const std::vector<CommId>& communicators, std::mt19937_64& random);

  // Whether any Tenant has ever had a quota.
  bool has_set_quotas() const { return has_set_quotas_; }

 private:
  std::string Apply(const std::string& text);
  std::string Undrain(std::mt19937_64& random);
  // Both return an error that must not happen. `before`: the objects before the request;
  // `requested`: those that it applies.
  std::string OnRejected(const absl::Status& why, const ObjectSet& before,
                         const std::vector<Object>& requested);
  std::string OnDeath(const ObjectSet& before);
  // Whether the fault of the store's disk explains the rejection.
  bool IsOfDisk(const absl::Status& why, const std::vector<Object>& requested);
  std::string RandomDocument(const std::vector<CommId>& communicators, std::mt19937_64& random);
  std::string InitialDocuments() const;
  std::string Topology() const;
  std::string RandomTenant(std::mt19937_64& random);
  std::string RandomPolicy(const std::vector<CommId>& communicators, std::mt19937_64& random) const;
  std::string RandomDrain(std::mt19937_64& random) const;
  std::string RandomPolicySpec(std::mt19937_64& random) const;
  void Count(const Object& object);
  void NoteQuotas(const TenantSpec& tenant);

  SimControl& control_;
  const std::vector<std::string> racks_, addresses_;  // by host
  RandomCounts& counts_;
  bool has_set_quotas_ = false;
  bool initialized_ = false;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_OPERATOR_H_
