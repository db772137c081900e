// A status as gRPC sends it.
#ifndef MCCS_CONTROLLER_API_GRPC_STATUS_H_
#define MCCS_CONTROLLER_API_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace mccs {

// The codes have the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_GRPC_STATUS_H_
