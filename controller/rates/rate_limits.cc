#include "controller/rates/rate_limits.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "controller/objects/object.h"
#include "controller/planning/applied_policies.h"
#include "controller/planning/planner.h"
#include "controller/state/resolved_view.h"

namespace mccs {
namespace {

bool AnyDecides(const ObjectSet& objects, PolicyDecision what) {
  const std::vector<const Object*> policies = objects.OfKind(ObjectKind::kPolicy);
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Object* policy) { return PolicyOf(*policy).Decides(what); });
}

struct FastestLink {
  const Object* topology = nullptr;
  const Topology::Link* link = nullptr;
  double payload_bps = 0;
};

// Of all NICs; the first of equally fast ones.
std::optional<FastestLink> FindFastest(const ObjectSet& set) {
  std::optional<FastestLink> fastest;
  for (const Object* object : set.OfKind(ObjectKind::kTopology)) {
    const Topology& topology = *TopologyOf(*object).topology;
    const double payload_part = UsableFraction(topology.mtu_bytes());
    for (const Topology::Nic& nic : topology.nics()) {
      const Topology::Link& link = topology.link(nic.link);
      const double payload_bps = payload_part * static_cast<double>(link.capacity_bps);
      if (!fastest || payload_bps > fastest->payload_bps) fastest = {object, &link, payload_bps};
    }
  }
  return fastest;
}

// Names of the Tenants whose guarantee is raised or new.
std::set<std::string> RaisedGuarantees(const ObjectSet& before, const ObjectSet& after) {
  std::set<std::string> raised;
  for (const Object* object : after.OfKind(ObjectKind::kTenant)) {
    const uint64_t now = TenantOf(*object).guarantee_bps.value_or(0);
    const Object* old = before.Find(object->key);
    const uint64_t was = old != nullptr ? TenantOf(*old).guarantee_bps.value_or(0) : 0;
    if (now > was) raised.insert(object->key.name);
  }
  return raised;
}

}  // namespace

DecidedRateLimits DecideRateLimits(const ObjectSet& objects, const ClusterView& resolved,
                                   const Fabrics& fabrics) {
  const bool any_shares = AnyDecides(objects, PolicyDecision::kRates);
  std::vector<bool> by_shares;
  bool any = false;
  for (const CommunicatorView& communicator : resolved.communicators) {
    by_shares.push_back(
        any_shares && SpecOf(SelectPolicy(objects, communicator)).Decides(PolicyDecision::kRates));
    any |= by_shares.back();
  }
  if (!any) {  // No flow's rate matters.
    AllShares none;
    none.flows.resize(resolved.communicators.size());
    return {PlanRateLimits(resolved, none, by_shares)};
  }
  const AllShares shares = FindShares(resolved, fabrics);
  DecidedRateLimits decided = {PlanRateLimits(resolved, shares, by_shares)};
  for (const UnmetGuarantee& broken : shares.broken) decided.broken.push_back(Describe(broken));
  return decided;
}

std::vector<WaitRule> DecideWaitRules(const ObjectSet& objects, const ClusterView& resolved,
                                      const Fabrics& fabrics) {
  if (!AnyDecides(objects, PolicyDecision::kSendWindows)) return {};
  std::vector<const std::vector<std::string>*> favoured;
  for (const CommunicatorView& communicator : resolved.communicators) {
    const PolicySpec& policy = SpecOf(SelectPolicy(objects, communicator));
    const bool in_windows = policy.Decides(PolicyDecision::kSendWindows);
    favoured.push_back(in_windows ? &policy.parameters.favoured : nullptr);
  }
  return FindWaitRules(resolved, fabrics, favoured);
}

std::string ExplainNicLimit(const ObjectSet& set, const Object& tenant) {
  const std::optional<uint64_t>& guarantee = TenantOf(tenant).guarantee_bps;
  if (!guarantee) return "";
  const std::optional<FastestLink> fastest = FindFastest(set);
  if (!fastest || static_cast<double>(*guarantee) <= fastest->payload_bps) return "";
  return absl::StrCat("no NIC can carry it: the fastest link, ", fastest->link->name, " of ",
                      ToText(fastest->topology->key), ", can carry ",
                      FormatBitRate(fastest->payload_bps), " of payload, but the guarantee is ",
                      FormatBitRate(static_cast<double>(*guarantee)));
}

absl::Status CheckGuaranteesAgainstNics(const ObjectSet& before, const ObjectSet& after) {
  for (const std::string& name : RaisedGuarantees(before, after)) {
    const Object& tenant = *after.Find({ObjectKind::kTenant, name});
    const std::string why = ExplainNicLimit(after, tenant);
    if (why.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(PlaceOf(tenant, "spec.guarantee"), ": ",
                                                      ToText(tenant.key), ", spec.guarantee: ", why,
                                                      "; lower it, or correct the Topology"));
  }
  return absl::OkStatus();
}

absl::Status CheckGuarantees(const ObjectSet& before, const ObjectSet& after,
                             const ClusterView& view) {
  const std::set<std::string> raised = RaisedGuarantees(before, after);
  if (raised.empty()) return absl::OkStatus();
  ClusterView resolved = ResolveView(view, after);
  PutStrategies(Planner().Decide(after, resolved), &resolved);
  const Fabrics fabrics(resolved);
  for (const UnmetGuarantee& broken : FindShares(resolved, fabrics).broken) {
    const auto tenant =
        std::find_if(broken.tenants.begin(), broken.tenants.end(),
                     [&](const std::string& name) { return raised.contains(name); });
    if (tenant == broken.tenants.end()) continue;
    const Object& object = *after.Find({ObjectKind::kTenant, *tenant});
    return absl::FailedPreconditionError(
        absl::StrCat(PlaceOf(object, "spec.guarantee"), ": ", ToText(object.key),
                     ", spec.guarantee: cannot be satisfied: ", Describe(broken),
                     "; lower a guarantee, or move their communicators to other links"));
  }
  return absl::OkStatus();
}

}  // namespace mccs
