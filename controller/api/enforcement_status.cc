#include "controller/api/enforcement_status.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/objects/policy_selection.h"
#include "controller/objects/spec_fields.h"
#include "controller/planning/applied_policies.h"
#include "controller/policy/shares.h"
#include "controller/rates/rate_limits.h"
#include "topology/five_tuple.h"

namespace mccs {
namespace {

bool HasTopology(const ObjectSet& set) { return !set.OfKind(ObjectKind::kTopology).empty(); }

// The parts of a Tenant that need policy `shares`: "guarantee of 10 Gbit/s", …
std::vector<std::string> SharesOf(const TenantSpec& tenant) {
  std::vector<std::string> shares;
  if (tenant.guarantee_bps)
    shares.push_back(absl::StrCat("guarantee of ", ExactBitRate(*tenant.guarantee_bps)));
  if (tenant.weight != TenantSpec().weight)
    shares.push_back(absl::StrCat("weight of ", ExactNumber(tenant.weight)));
  return shares;
}

std::string NoEffect(const Object& tenant, const std::vector<std::string>& what) {
  return absl::StrCat("The ", absl::StrJoin(what, " and the "), " of ", ToText(tenant.key),
                      what.size() > 1 ? " have" : " has", " no effect: ");
}

std::string OfTenant(const ObjectSet& set, const Object& object) {
  const TenantSpec& tenant = TenantOf(object);
  const std::vector<std::string> rates = SharesOf(tenant);
  if (rates.empty()) return "";
  if (!HasTopology(set)) {
    return absl::StrCat(NoEffect(object, rates),
                        "the links of its lanes are unknown without a Topology; apply one.");
  }
  const Object* policy = SelectPolicyForTenant(set, object);
  if (!SpecOf(policy).Decides(PolicyDecision::kRates)) {
    const std::string decides =
        policy == nullptr ? "no Policy selects the tenant"
                          : absl::StrCat(ToText(policy->key), " (", Name(PolicyOf(*policy).type),
                                         ") selects the tenant");
    return absl::StrCat(NoEffect(object, rates), decides, ", and only policies of type `",
                        Name(PolicyKind::kShares),
                        "` use weights and guarantees; apply one with the tenant in "
                        "`selector.tenants`, or without `selector`.");
  }
  const std::string why = ExplainNicLimit(set, object);
  if (why.empty()) return "";
  return absl::StrCat("The guarantee of ", ToText(object.key),
                      " is lowered to the available rate: ", why,
                      "; lower it, or correct the Topology.");
}

std::string OfPolicy(const ObjectSet& set, const PolicySpec& policy) {
  if (!policy.Decides(PolicyDecision::kFlows) || HasTopology(set)) return "";
  return absl::StrCat("Policy `", Name(policy.type),
                      "` requires a Topology, and there is none: ", Name(PolicyKind::kLocalityRing),
                      " chooses rings and source ports instead; apply the Topology.");
}

bool HasIpv4(const std::vector<std::string>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [](const std::string& text) { return ParseIpv4(text).has_value(); });
}

std::string OfTopology(const Topology& topology) {
  const SourcePortMapping::Kind kind = topology.source_ports().kind;
  if (kind == SourcePortMapping::Kind::kRules) return "";
  bool has_choice = false;
  for (size_t i = 0; i < topology.switches().size(); ++i)
    has_choice |= topology.NeighboursOf(SwitchId(static_cast<int32_t>(i))).size() > 1;
  if (!has_choice) return "";
  const auto& switches = topology.switches();
  const bool probes = kind == SourcePortMapping::Kind::kProbe;
  if (probes && std::none_of(switches.begin(), switches.end(),
                             [](const auto& each) { return HasIpv4(each.addresses); })) {
    return absl::StrCat(
        "Without IPv4 `addresses` of its switches, a Topology with `mapping: probe` places no "
        "flows: ",
        Name(PolicyKind::kLocalityRing), " chooses source ports instead; add the addresses.");
  }
  for (size_t i = 0; i < topology.nics().size(); ++i) {
    const NicId nic(static_cast<int32_t>(i));
    if (HasIpv4({topology.nic(nic).address})) continue;
    return absl::StrCat("NIC ", topology.NicName(nic), " has no IPv4 `address`, and ",
                        probes ? "probing finds" : "a hash determines",
                        " paths of IPv4 flows only: flows of communicators that use this NIC are "
                        "not placed; add its address, or use `mapping: rules`.");
  }
  return "";
}

}  // namespace

std::string EnforcementStatus(const ObjectSet& set, const Object& object) {
  return UnenforcedReason(set, object).empty() ? "True" : "Partial";
}

std::string UnenforcedReason(const ObjectSet& set, const Object& object) {
  switch (object.key.kind) {
    case ObjectKind::kTenant:
      return OfTenant(set, object);
    case ObjectKind::kPolicy:
      return OfPolicy(set, PolicyOf(object));
    case ObjectKind::kTopology:
      return OfTopology(*TopologyOf(object).topology);
    case ObjectKind::kDrain:
      if (DrainOf(object).link.empty()) return "";
      return absl::StrCat("Only policies that place flows by a Topology avoid a drained link; ",
                          Name(PolicyKind::kLocalityRing), " does not.");
  }
  return "";
}

}  // namespace mccs
