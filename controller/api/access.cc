#include "controller/api/access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/grpc/credentials.h"

namespace mccs {

void Access::SetOperators(std::vector<OperatorRole> operators) {
  const std::lock_guard lock(mutex_);
  operators_ = std::move(operators);
}

absl::StatusOr<Identity> Access::IdentityOf(const grpc::AuthContext& context) const {
  std::optional<Identity> identity = PeerOf(context);
  if (!identity.has_value()) {
    return absl::UnauthenticatedError(
        "the client's certificate has no SPIFFE id of this cluster; issue one with "
        "mccs-controller issue-certificate");
  }
  if (identity->domain != domain_) {
    return absl::PermissionDeniedError(absl::StrCat("the client's certificate is of ",
                                                    ToString(*identity),
                                                    ", and this controller's "
                                                    "cluster is ",
                                                    domain_));
  }
  return *std::move(identity);
}

absl::StatusOr<Caller> Access::CallerOf(const grpc::ServerContextBase& context,
                                        const std::string& user) const {
  Caller caller{.peer = context.peer(), .user = user, .role = FirstOperator()};
  if (clients_ == Clients::kAnyone) return caller;
  MCCS_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(*context.auth_context()));
  if (identity.kind != Identity::Kind::kOperator) {
    return absl::PermissionDeniedError(
        absl::StrCat("the client's certificate is of ", ToString(identity),
                     ": the operators' API needs one of spiffe://", domain_, "/operator/NAME"));
  }
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(operators_, identity.name, &OperatorRole::name);
  if (known == operators_.end()) {
    return absl::PermissionDeniedError(
        absl::StrCat("operator ", identity.name,
                     " has no role; one of viewer, tenant-admin and "
                     "admin is needed: add it to `operators` in mccs-controller's configuration"));
  }
  caller.user = ToString(identity);
  caller.role = *known;
  return caller;
}

absl::Status Access::CheckHost(const grpc::AuthContext& context, const std::string& host) const {
  if (clients_ == Clients::kAnyone) return absl::OkStatus();
  MCCS_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  if (identity == Identity{.domain = domain_, .kind = Identity::Kind::kHost, .name = host})
    return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the daemon's certificate is of ", ToString(identity), ", and it registers as host ", host,
      ": issue one of spiffe://", domain_, "/host/", host,
      ", or correct `host` in its "
      "configuration"));
}

}  // namespace mccs
