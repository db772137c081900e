#include "controller/state/operator_roles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "controller/objects/policy_selection.h"

namespace mccs {
namespace {

std::string TextOf(const OperatorRole& caller) {
  std::string text =
      absl::StrCat("operator ", caller.name, " is ", std::string(RoleName(caller.role)));
  if (caller.role == Role::kTenantAdmin)
    absl::StrAppend(&text, " of ", absl::StrJoin(caller.tenants, ", "));
  return text;
}

// Why the tenants' admin may not have this object before or after its change; empty: it may.
std::string WhyNotOwn(const OperatorRole& caller, const Object& object) {
  const auto* const policy = std::get_if<PolicySpec>(&object.spec);
  if (policy == nullptr) return "it is not a Policy";
  if (policy->tenants.empty()) return "its selector names no tenants";
  for (const std::string& tenant : policy->tenants) {
    if (std::ranges::find(caller.tenants, tenant) == caller.tenants.end())
      return absl::StrCat("it applies to tenant ", tenant);
  }
  if (!policy->parameters.reserved_links.empty()) return "it reserves links";
  return "";
}

bool LimitsSending(const Object* policy) {
  return policy != nullptr && (PolicyOf(*policy).Decides(PolicyDecision::kRates) ||
                               PolicyOf(*policy).Decides(PolicyDecision::kSendWindows));
}

std::string TextOf(const Object* policy) {
  if (policy == nullptr) return "no Policy";
  return absl::StrCat(ToText(policy->key), " (", Name(PolicyOf(*policy).type), ")");
}

// Why the tenants' admin may not make this change of the Policies that apply to the tenants of
// `policy`; empty: it may. Rates and send windows protect other tenants.
std::string WhyNotSending(const ObjectSet& before, const ObjectSet& after,
                          const PolicySpec& policy) {
  for (const std::string& name : policy.tenants) {
    const ObjectKey tenant{ObjectKind::kTenant, name};
    const Object* const old = SelectRingPolicy(before, /*id=*/"", before.Find(tenant));
    const Object* const now = SelectRingPolicy(after, /*id=*/"", after.Find(tenant));
    if (!LimitsSending(old) && !LimitsSending(now)) continue;
    if (old != nullptr && now != nullptr && PolicyOf(*old) == PolicyOf(*now)) continue;
    return absl::StrCat("it changes the rates or send windows of tenant ", name, ", from ",
                        TextOf(old), " to ", TextOf(now));
  }
  return "";
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kTenantAdmin:
      return "tenant-admin";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

std::optional<Role> ParseRole(std::string_view name) {
  const auto* const role = std::ranges::find(kRoles, name, &RoleName);
  return role == std::end(kRoles) ? std::nullopt : std::optional(*role);
}

absl::Status CheckIsAdmin(const OperatorRole& caller, std::string_view what) {
  if (caller.role == Role::kAdmin) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(TextOf(caller), ": only an admin may ", std::string(what),
                   "; ask one, or have your role changed in mccs-controller's `operators`"));
}

absl::Status CheckMayChangeSome(const OperatorRole& caller) {
  return caller.role == Role::kTenantAdmin
             ? absl::OkStatus()
             : CheckIsAdmin(caller, "change objects, and a tenant-admin Policies of its tenants");
}

absl::Status CheckMayChange(const OperatorRole& caller, const ObjectSet& before,
                            const PlannedChange& change) {
  if (caller.role != Role::kTenantAdmin) return CheckMayChangeSome(caller);
  for (const ObjectChange& each : change.changes) {
    if (each.kind == ChangeKind::kUnchanged) continue;
    for (const Object* const object : {before.Find(each.key), change.next.Find(each.key)}) {
      if (object == nullptr) continue;
      std::string why = WhyNotOwn(caller, *object);
      if (why.empty()) why = WhyNotSending(before, change.next, PolicyOf(*object));
      if (why.empty()) continue;
      return absl::PermissionDeniedError(absl::StrCat(
          TextOf(caller), ", and ", ToText(each.key), " needs an admin: ", why,
          "; a tenant-admin changes Policies whose selector names only its own tenants, and leaves "
          "rates and send windows as they are"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs
