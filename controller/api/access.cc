#include "controller/api/access.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Of the header "authorization: Bearer TOKEN".
std::optional<std::string> BearerTokenOf(const Access::Metadata& metadata) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return std::nullopt;
  const std::string_view value(found->second.data(), found->second.size());
  if (!value.starts_with(kScheme)) return std::nullopt;
  return std::string(value.substr(kScheme.size()));
}

// The name is the client's choice, as far as its authority permits.
std::string CommonNameOf(const grpc::AuthContext& context) {
  constexpr size_t kLongest = 64;
  for (const grpc::string_ref& name : context.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME))
    return absl::CHexEscape(absl::string_view(name.data(), std::min(name.size(), kLongest)));
  return "";
}

}  // namespace

void Access::SetOperators(std::vector<OperatorRole> operators) {
  const std::lock_guard lock(mutex_);
  operators_ = std::move(operators);
}

absl::StatusOr<Identity> Access::IdentityOf(const grpc::AuthContext& context) const {
  std::optional<Identity> identity = PeerOf(context);
  if (!identity.has_value()) {
    const std::string name = CommonNameOf(context);
    return absl::UnauthenticatedError(absl::StrCat(
        "the client's certificate", name.empty() ? "" : absl::StrCat(" of '", name, "'"),
        " has no SPIFFE id of this cluster; issue one with "
        "mccs-controller issue-certificate"));
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

absl::StatusOr<Access::Proven> Access::OperatorOf(const grpc::AuthContext& context,
                                                  const Metadata& metadata) const {
  const bool has_certificate = PeerOf(context).has_value();
  const std::optional<std::string> token = BearerTokenOf(metadata);
  if (!has_certificate && token.has_value() && tokens_ != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const std::string name,
                          tokens_->NameIn(*token, clock_->Now() / kNsPerSec));
    return Proven{name, /*by_token=*/true,
                  absl::StrCat("token of ", name, " by ", tokens_->rules().issuer)};
  }
  if (!has_certificate && token.has_value()) {
    return absl::UnauthenticatedError(
        "this controller accepts no bearer tokens: use a certificate, or set `tokens` in "
        "mccs-controller's configuration");
  }
  if (!has_certificate && tokens_ != nullptr) {
    return absl::UnauthenticatedError(
        "the client has neither a certificate nor a bearer token: give mccsctl --tls DIR with "
        "tls.crt and tls.key, or --token FILE");
  }
  MCCS_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  if (identity.kind != Identity::Kind::kOperator) {
    return absl::PermissionDeniedError(
        absl::StrCat("the client's certificate is of ", ToString(identity),
                     ": the operators' API needs one of spiffe://", domain_, "/operator/NAME"));
  }
  return Proven{identity.name, /*by_token=*/false, ToString(identity)};
}

void Access::Report(const absl::Status& refusal) const {
  if (refusal.ok()) return;
  on_refused_({.reason = RefusalReason::kUnauthorized,
               .subject = "",
               .message = std::string(refusal.message())});
}

absl::StatusOr<Caller> Access::CallerOf(const grpc::ServerContextBase& context,
                                        const std::string& user) const {
  absl::StatusOr<Caller> caller = FindCaller(context, user);
  Report(caller.status());
  return caller;
}

absl::StatusOr<Caller> Access::FindCaller(const grpc::ServerContextBase& context,
                                          const std::string& user) const {
  Caller caller{.peer = context.peer(), .user = user, .role = FirstOperator()};
  if (clients_ == Clients::kAnyone) return caller;
  MCCS_ASSIGN_OR_RETURN(const Proven proven,
                        OperatorOf(*context.auth_context(), context.client_metadata()));
  MCCS_ASSIGN_OR_RETURN(caller.role, RoleOf(proven));
  caller.user = proven.text;
  caller.user_proven = true;
  return caller;
}

absl::StatusOr<OperatorRole> Access::RoleOf(const Proven& proven) const {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(operators_, [&](const OperatorRole& each) {
    return each.name == proven.name && each.by_token == proven.by_token;
  });
  if (known == operators_.end()) {
    return absl::PermissionDeniedError(
        absl::StrCat("operator ", proven.name, " (", proven.text,
                     ") has no role; one of viewer, tenant-admin and "
                     "admin is needed: add it to `operators` in mccs-controller's configuration"));
  }
  return *known;
}

absl::Status Access::CheckIsKnown(const grpc::AuthContext& context,
                                  const Metadata& metadata) const {
  absl::Status known = FindKnown(context, metadata);
  Report(known);
  return known;
}

absl::Status Access::FindKnown(const grpc::AuthContext& context, const Metadata& metadata) const {
  if (clients_ == Clients::kAnyone) return absl::OkStatus();
  const std::optional<Identity> peer = PeerOf(context);
  if (peer.has_value() && peer->kind == Identity::Kind::kHost) return IdentityOf(context).status();
  MCCS_ASSIGN_OR_RETURN(const Proven proven, OperatorOf(context, metadata));
  return RoleOf(proven).status();
}

absl::Status Access::CheckIsHost(const grpc::AuthContext& context) const {
  if (clients_ == Clients::kAnyone) return absl::OkStatus();
  MCCS_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  if (identity.kind == Identity::Kind::kHost) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the client's certificate is of ", ToString(identity), ": a daemon needs one of spiffe://",
      domain_, "/host/NAME; issue one with mccs-controller issue-certificate"));
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
