// The error class that tenants and metrics see for a failure inside the daemon.
#ifndef MCCS_SERVICE_ERROR_CLASS_H_
#define MCCS_SERVICE_ERROR_CLASS_H_

#include "absl/status/status.h"
#include "proto/shim_wire.h"

namespace mccs {

inline wire::ErrorClass ToErrorClass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return wire::ErrorClass::kNone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return wire::ErrorClass::kInvalidArgument;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return wire::ErrorClass::kInvalidUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
      return wire::ErrorClass::kRemote;
    case absl::StatusCode::kAborted:
      return wire::ErrorClass::kAborted;
    case absl::StatusCode::kInternal:
      return wire::ErrorClass::kInternal;
    default:
      return wire::ErrorClass::kSystem;
  }
}

}  // namespace mccs

#endif  // MCCS_SERVICE_ERROR_CLASS_H_
