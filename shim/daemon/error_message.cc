#include "shim/daemon/error_message.h"

#include <cstring>

namespace mccs::shim {

ncclResult_t ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ncclSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ncclInvalidArgument;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return ncclInvalidUsage;
    case absl::StatusCode::kUnknown:
      return ncclUnhandledCudaError;
    case absl::StatusCode::kDataLoss:
      return ncclRemoteError;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kCancelled:
      return ncclInternalError;
    default:
      return ncclSystemError;
  }
}

ncclResult_t ResultOf(wire::ErrorClass error) {
  return error == wire::ErrorClass::kNone ? ncclSuccess : ResultOf(StatusOf(error, ""));
}

absl::Status StatusOf(wire::ErrorClass error, std::string_view text) {
  const absl::string_view message(text.data(), text.size());
  switch (error) {
    case wire::ErrorClass::kNone:
      break;
    case wire::ErrorClass::kInvalidArgument:
      return absl::InvalidArgumentError(message);
    case wire::ErrorClass::kInvalidUsage:
      return absl::FailedPreconditionError(message);
    case wire::ErrorClass::kSystem:
      return absl::UnavailableError(message);
    case wire::ErrorClass::kRemote:
      return absl::DataLossError(message);
    case wire::ErrorClass::kAborted:
      return absl::CancelledError(message);
    case wire::ErrorClass::kInternal:
      break;
  }
  return absl::InternalError(message);
}

absl::Status FailureOf(const wire::CommRegion& region) {
  // Pairs with the release store after the text (by the daemon, or FailLocally).
  const auto error =
      static_cast<wire::ErrorClass>(region.failure.error.load(std::memory_order_acquire));
  if (error == wire::ErrorClass::kNone) return absl::OkStatus();
  const char* text = region.failure.text;
  return StatusOf(error, std::string_view(text, strnlen(text, sizeof(region.failure.text))));
}

absl::Status WorkFailureOf(const wire::CommRegion& region) {
  // The order matters: the daemon writes accepts_calls before the error, and clears it after.
  if (region.failure.error.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  if (region.failure.accepts_calls.load(std::memory_order_acquire) != 0) return absl::OkStatus();
  return FailureOf(region);
}

const char* RemedyOf(const absl::Status& failure) {
  switch (ResultOf(failure)) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return "correct the named call on every rank, call ncclCommAbort on this communicator and "
             "create a new one";
    case ncclRemoteError:
      return "call ncclCommAbort on this communicator and create a new one with the remaining "
             "ranks; for the cause see the daemon's log on the named host";
    case ncclSystemError:
      return "call ncclCommAbort on this communicator; check on every host that the MCCS daemon "
             "runs and what its log reports, then create a new communicator";
    case ncclUnhandledCudaError:
      return "the CUDA error occurred in this process: locate it with cuda-gdb or "
             "compute-sanitizer; then call ncclCommAbort on this communicator";
    default:
      return "call ncclCommAbort on this communicator and create a new one; for details see the "
             "daemon's log on this host";
  }
}

const char* DescribeResult(ncclResult_t result) {
  switch (static_cast<int>(result)) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (see ncclGetLastError)";
    case ncclSystemError:
      return "unhandled system error (see ncclGetLastError)";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument (see ncclGetLastError)";
    case ncclInvalidUsage:
      return "invalid usage (see ncclGetLastError)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    case 8:
      return "operation timed out";  // ncclTimeout, since 2.32
    default:
      return "unknown result code";
  }
}

}  // namespace mccs::shim
