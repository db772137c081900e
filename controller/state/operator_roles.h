// The roles of operators. Pure.
//
//   viewer         reads everything
//   tenant-admin   the same, and changes Policies that apply to its tenants only
//   admin          changes everything
//
// A Policy that keeps others off links (`reserved_links`) is not a tenant's to make. Nor is a
// change of the rates or send windows of its own tenants (`shares`, `time_windows`), which protect
// others: no Policy that has them may begin to apply to these, cease to, or change.
//
// THREAD: any.
#ifndef MCCS_CONTROLLER_STATE_OPERATOR_ROLES_H_
#define MCCS_CONTROLLER_STATE_OPERATOR_ROLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/objects/change.h"
#include "controller/objects/object.h"

namespace mccs {

enum class Role : uint8_t { kViewer, kTenantAdmin, kAdmin };

inline constexpr Role kRoles[] = {Role::kViewer, Role::kTenantAdmin, Role::kAdmin};
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

// An operator of the configuration.
struct OperatorRole {
  std::string name;
  Role role = Role::kViewer;
  std::vector<std::string> tenants = {};  // kTenantAdmin
  bool by_token = false;  // a token proves the name, which is not one in certificates then

  friend bool operator==(const OperatorRole&, const OperatorRole&) = default;
};

// The operator without a configuration: `mccs-controller init-ca` makes its certificate.
inline constexpr char kFirstOperator[] = "admin";
inline OperatorRole FirstOperator() { return {.name = kFirstOperator, .role = Role::kAdmin}; }

// kPermissionDenied names the object and the role that the change needs. `before`: the objects that
// `change` was planned for.
absl::Status CheckMayChange(const OperatorRole& caller, const ObjectSet& before,
                            const PlannedChange& change);

// kPermissionDenied: a viewer, whom CheckMayChange rejects for every change. It needs no plan.
absl::Status CheckMayChangeSome(const OperatorRole& caller);

// kPermissionDenied: not an admin. `what`: "drain hosts and links".
absl::Status CheckIsAdmin(const OperatorRole& caller, std::string_view what);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_OPERATOR_ROLES_H_
