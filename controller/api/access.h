// The clients that may call the controller. A client is who its certificate says (trust/grpc/credentials.h);
// the roles of operators come from the configuration.
//
// THREAD: any.
#ifndef MCCS_CONTROLLER_API_ACCESS_H_
#define MCCS_CONTROLLER_API_ACCESS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/state/catalog.h"
#include "controller/state/operator_roles.h"
#include "trust/identity.h"

namespace mccs {

class Access {
 public:
  enum class Clients { kAnyone, kProven };

  // kAnyone: connections have no TLS, and everybody may do everything. `domain`: of the
  // controller's certificate.
  explicit Access(Clients clients, std::string domain = "")
      : clients_(clients), domain_(std::move(domain)) {}

  // Replaces all roles. An operator without a role may do nothing.
  void SetOperators(std::vector<OperatorRole> operators);

  // The caller of the operators' API. `user`: as the client reports it. kUnauthenticated or
  // kPermissionDenied name what the certificate says, what is needed, and the remedy.
  absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context,
                                  const std::string& user) const;

  // The same for an agent that registers as `host`.
  absl::Status CheckHost(const grpc::AuthContext& context, const std::string& host) const;

 private:
  absl::StatusOr<Identity> IdentityOf(const grpc::AuthContext& context) const;

  const Clients clients_;
  const std::string domain_;
  mutable std::mutex mutex_;  // guards operators_
  std::vector<OperatorRole> operators_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_ACCESS_H_
