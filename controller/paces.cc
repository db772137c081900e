#include "controller/paces.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/complete_view.h"
#include "controller/guarantee_limits.h"
#include "controller/objects/object.h"
#include "controller/run_policies.h"

namespace mccs {
namespace {

bool HasPolicy(const ObjectSet& objects, const std::string& name) {
  const std::vector<const Object*> policies = objects.OfKind(ObjectKind::kPolicy);
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Object* policy) { return PolicyOf(*policy).policy == name; });
}

}  // namespace

DecidedPaces DecidePaces(const ObjectSet& objects, const ClusterView& complete,
                         const Fabrics& fabrics) {
  const bool any_shares = HasPolicy(objects, kSharesName);
  std::vector<bool> by_shares;
  bool any = false;
  for (const CommunicatorView& communicator : complete.communicators) {
    const Object* policy = any_shares ? PolicyInForce(objects, communicator) : nullptr;
    by_shares.push_back(policy != nullptr && PolicyOf(*policy).policy == kSharesName);
    any |= by_shares.back();
  }
  if (!any) {  // No flow's rate matters.
    SharesOfAll none;
    none.flows.resize(complete.communicators.size());
    return {PlanPaces(complete, none, by_shares)};
  }
  const SharesOfAll shares = FindShares(complete, fabrics);
  DecidedPaces decided = {PlanPaces(complete, shares, by_shares)};
  for (const BrokenPromise& broken : shares.broken) decided.broken.push_back(Describe(broken));
  return decided;
}

std::vector<WaitRule> DecideWaits(const ObjectSet& objects, const ClusterView& complete,
                                  const Fabrics& fabrics) {
  if (!HasPolicy(objects, kTimeWindowsName)) return {};
  std::vector<const std::vector<std::string>*> favoured;
  for (const CommunicatorView& communicator : complete.communicators) {
    const Object* policy = PolicyInForce(objects, communicator);
    const bool in_windows = policy != nullptr && PolicyOf(*policy).policy == kTimeWindowsName;
    favoured.push_back(in_windows ? &PolicyOf(*policy).parameters.favoured : nullptr);
  }
  return WhoWaits(complete, fabrics, favoured);
}

absl::Status CheckGuarantees(const ObjectSet& before, const ObjectSet& after,
                             const ClusterView& view) {
  const std::set<std::string> raised = RaisedGuarantees(before, after);
  if (raised.empty()) return absl::OkStatus();
  ClusterView complete = CompleteView(view, after);
  std::vector<absl::StatusOr<strategy::Strategy>> strategies = RunPolicies(after, complete);
  for (size_t i = 0; i < strategies.size(); ++i) {
    if (strategies[i].ok()) complete.communicators[i].strategy = *std::move(strategies[i]);
  }
  const Fabrics fabrics(complete);
  for (const BrokenPromise& broken : FindShares(complete, fabrics).broken) {
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
