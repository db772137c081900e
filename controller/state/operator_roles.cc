#include "controller/state/operator_roles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

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
  return caller.role == Role::kTenantAdmin ? absl::OkStatus()
                                           : CheckIsAdmin(caller, "change objects");
}

absl::Status CheckMayChange(const OperatorRole& caller, const ObjectSet& before,
                            const PlannedChange& change) {
  if (caller.role != Role::kTenantAdmin) return CheckMayChangeSome(caller);
  for (const ObjectChange& each : change.changes) {
    if (each.kind == ChangeKind::kUnchanged) continue;
    for (const Object* const object : {before.Find(each.key), change.next.Find(each.key)}) {
      const std::string why = object != nullptr ? WhyNotOwn(caller, *object) : "";
      if (why.empty()) continue;
      return absl::PermissionDeniedError(absl::StrCat(
          TextOf(caller), ", and ", ToText(each.key), " needs an admin: ", why,
          "; a tenant-admin changes Policies whose selector names only its own tenants"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs
