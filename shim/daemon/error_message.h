// Errors as NCCL's callers see them: result codes, statuses and remedies.
//
// The library uses absl::Status internally. Each code maps to one ncclResult_t:
//   kInvalidArgument, kOutOfRange          ncclInvalidArgument
//   kFailedPrecondition, kUnimplemented    ncclInvalidUsage
//   kUnknown                               ncclUnhandledCudaError
//   kDataLoss                              ncclRemoteError
//   kInternal, kCancelled                  ncclInternalError
//   everything else (errno, timeouts)      ncclSystemError
#ifndef MCCS_SHIM_DAEMON_ERROR_MESSAGE_H_
#define MCCS_SHIM_DAEMON_ERROR_MESSAGE_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/shim_wire.h"

namespace mccs::shim {

ncclResult_t ResultOf(const absl::Status& status);
ncclResult_t ResultOf(wire::ErrorClass error);

// The daemon's error as a status. REQUIRES: error is not kNone.
absl::Status StatusOf(wire::ErrorClass error, std::string_view text);

// The failure that the daemon wrote into a communicator's region; ok if there is none.
absl::Status FailureOf(const wire::CommRegion& region);
// The same, but also ok while calls are still accepted: a rank departed, and no call needs it yet.
absl::Status WorkFailureOf(const wire::CommRegion& region);

// A deep copy, for a status that several threads read. (Abseil counts references in its own
// library, where the thread sanitizer cannot see it.)
inline absl::Status DeepCopy(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

// For absl::StrCat: Debian's Abseil has a string_view of its own.
inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// kInvalidArgument: "ncclAllReduce: …".
template <typename... Parts>
absl::Status ArgumentError(std::string_view function, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(View(function), ": ", parts...));
}

// The remedy for a communicator that failed with `failure`: a clause without a final period.
const char* RemedyOf(const absl::Status& failure);

// ncclGetErrorString.
const char* DescribeResult(ncclResult_t result);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_ERROR_MESSAGE_H_
