#include "controller/rates/rate_limits.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/objects/object.h"
#include "controller/planning/applied_policies.h"
#include "controller/planning/planner.h"
#include "controller/rates/guarantee_limits.h"
#include "controller/state/resolved_view.h"

namespace mccs {
namespace {

bool AnyDecides(const ObjectSet& objects, PolicyDecision what) {
  const std::vector<const Object*> policies = objects.OfKind(ObjectKind::kPolicy);
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Object* policy) { return PolicyOf(*policy).Decides(what); });
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
    return absl::FailedPreconditionError(absl::StrCat(
        PlaceOf(object, "spec.guarantee"), ": ", ToText(object.key),
        ", spec.guarantee: cannot be held with the running communicators: ", Describe(broken),
        "; lower a guarantee, or move their communicators to other links"));
  }
  return absl::OkStatus();
}

}  // namespace mccs
