// The clients that may call the controller. A client is who its certificate says
// (trust/grpc/credentials.h), or, for operators, its bearer token; the roles of operators come from
// the configuration.
//
// THREAD: any.
#ifndef MCCS_CONTROLLER_API_ACCESS_H_
#define MCCS_CONTROLLER_API_ACCESS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/state/catalog.h"
#include "controller/state/operator_roles.h"
#include "trust/grpc/credentials.h"
#include "trust/identity.h"
#include "trust/tokens/token_verifier.h"

namespace mccs {

class Access {
 public:
  enum class Clients { kAnyone, kProven };
  using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;  // of a call

  // kAnyone: connections have no TLS, and everybody may do everything. `domain`: of the
  // controller's certificate. `tokens`: null: operators need certificates. `on_refused` learns of
  // the clients that CallerOf and CheckIsKnown refuse. LIFETIME: `clock` and what on_refused uses
  // outlive it.
  explicit Access(
      Clients clients, std::string domain = "", std::unique_ptr<TokenVerifier> tokens = nullptr,
      const WallClock* clock = nullptr, OnRefusedClient on_refused = [](const RefusedPeer&) {})
      : clients_(clients),
        domain_(std::move(domain)),
        tokens_(std::move(tokens)),
        clock_(clock),
        on_refused_(std::move(on_refused)) {}

  // Whether clients may have no certificate.
  bool accepts_tokens() const { return tokens_ != nullptr; }

  // Replaces all roles. An operator without a role may do nothing.
  void SetOperators(std::vector<OperatorRole> operators);

  // The caller of the operators' API. `user`: as the client reports it. kUnauthenticated or
  // kPermissionDenied name what the certificate says, what is needed, and the remedy.
  absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context,
                                  const std::string& user) const;

  // Whether a client may call anything: it is a host of the cluster or an operator with a role.
  absl::Status CheckIsKnown(const grpc::AuthContext& context, const Metadata& metadata) const;

  // The same for an agent: whether it is any host of the cluster, and whether it is `host`.
  absl::Status CheckIsHost(const grpc::AuthContext& context) const;
  absl::Status CheckHost(const grpc::AuthContext& context, const std::string& host) const;

 private:
  // An operator and what proves that.
  struct Proven {
    std::string name;
    bool by_token = false;
    std::string text;  // for the audit log
  };
  absl::StatusOr<Identity> IdentityOf(const grpc::AuthContext& context) const;
  absl::StatusOr<Proven> OperatorOf(const grpc::AuthContext& context,
                                    const Metadata& metadata) const;
  absl::StatusOr<OperatorRole> RoleOf(const Proven& proven) const;
  absl::StatusOr<Caller> FindCaller(const grpc::ServerContextBase& context,
                                    const std::string& user) const;
  absl::Status FindKnown(const grpc::AuthContext& context, const Metadata& metadata) const;
  void Report(const absl::Status& refusal) const;

  const Clients clients_;
  const std::string domain_;
  const std::unique_ptr<TokenVerifier> tokens_;
  const WallClock* const clock_;
  const OnRefusedClient on_refused_;
  mutable std::mutex mutex_;  // guards operators_
  std::vector<OperatorRole> operators_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_ACCESS_H_
