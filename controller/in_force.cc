#include "controller/in_force.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/flow_policies.h"
#include "controller/guarantee_limits.h"
#include "controller/objects/exact_units.h"
#include "controller/policy/shares.h"
#include "controller/run_policies.h"

namespace mccs {
namespace {

bool HasTopology(const ObjectSet& set) { return !set.OfKind(ObjectKind::kTopology).empty(); }

// What of a Tenant policy `shares` alone acts on: "guarantee of 10 Gbps", …
std::vector<std::string> SharesOf(const TenantSpec& tenant) {
  std::vector<std::string> shares;
  if (tenant.guarantee_bps)
    shares.push_back(absl::StrCat("guarantee of ", ExactBitRate(*tenant.guarantee_bps)));
  if (tenant.weight != TenantSpec().weight)
    shares.push_back(absl::StrCat("weight of ", ExactNumber(tenant.weight)));
  return shares;
}

std::string DoNotGoBy(const Object& tenant, const std::vector<std::string>& what) {
  return absl::StrCat("Lanes of ", ToText(tenant.key), " do not go by its ",
                      absl::StrJoin(what, " and its "), ": ");
}

std::string OfTenant(const ObjectSet& set, const Object& object) {
  const TenantSpec& tenant = TenantOf(object);
  std::vector<std::string> rates = SharesOf(tenant);
  const bool has_shares = !rates.empty();
  if (!HasTopology(set)) {
    if (tenant.cap_bps) rates.push_back(absl::StrCat("cap of ", ExactBitRate(*tenant.cap_bps)));
    if (rates.empty()) return "";
    return absl::StrCat(DoNotGoBy(object, rates),
                        "no Topology says which links they take; apply one.");
  }
  if (!has_shares) return "";
  const Object* policy = PolicyForTenant(set, object);
  if (policy == nullptr || PolicyOf(*policy).policy != kSharesName) {
    const std::string decides = policy == nullptr
                                    ? "no Policy is for it"
                                    : absl::StrCat(PolicyOf(*policy).policy, ", by ",
                                                   ToText(policy->key), ", decides for it");
    return absl::StrCat(DoNotGoBy(object, rates), decides, ", and policy `", kSharesName,
                        "` alone heeds them; apply such a Policy that names it in `for.tenants`, "
                        "or is for all others.");
  }
  const std::string why = WhyNoNicCarries(set, object);
  if (why.empty()) return "";
  return absl::StrCat("The guarantee of ", ToText(object.key),
                      " is lowered to what there is: ", why,
                      "; lower it, or correct the Topology.");
}

std::string OfPolicy(const ObjectSet& set, const PolicySpec& policy) {
  if (!PlacesFlows(policy.policy) || HasTopology(set)) return "";
  return absl::StrCat(
      "Policy `", policy.policy,
      "` goes by the links of a Topology, and there is none: rings and source ports "
      "are given as by locality_ring; apply the Topology.");
}

std::string OfTopology(const Topology& topology) {
  if (topology.source_ports().kind != SourcePortMapping::Kind::kProbe) return "";
  bool has_choice = false;
  for (size_t i = 0; i < topology.switches().size(); ++i)
    has_choice |= topology.NeighboursOf(SwitchId(static_cast<int32_t>(i))).size() > 1;
  if (!has_choice) return "";
  const auto has_address = [](const auto& part) { return !part.addresses.empty(); };
  if (std::any_of(topology.switches().begin(), topology.switches().end(), has_address)) return "";
  return "A Topology whose source ports are mapped by probing places no flows without the "
         "`addresses` of its switches: policies that would go by it give source ports as "
         "locality_ring does.";
}

}  // namespace

std::string InForce(const ObjectSet& set, const Object& object) {
  return NotActedOn(set, object).empty() ? "yes" : "in part";
}

std::string NotActedOn(const ObjectSet& set, const Object& object) {
  switch (object.key.kind) {
    case ObjectKind::kTenant:
      return OfTenant(set, object);
    case ObjectKind::kPolicy:
      return OfPolicy(set, PolicyOf(object));
    case ObjectKind::kTopology:
      return OfTopology(*TopologyOf(object).topology);
    case ObjectKind::kDrain:
      if (DrainOf(object).link.empty()) return "";
      return "A drained link is avoided by policies that place flows by a Topology; locality_ring "
             "places none.";
  }
  return "";
}

}  // namespace mccs
