// Errors as a caller of NCCL meets them: an ncclResult_t, and a text in ncclGetLastError.
//
// Inside, an error is an absl::Status whose code stands for one ncclResult_t:
//   kInvalidArgument, kOutOfRange          ncclInvalidArgument
//   kFailedPrecondition, kUnimplemented    ncclInvalidUsage
//   kUnknown                               ncclUnhandledCudaError
//   kDataLoss                              ncclRemoteError
//   kInternal, kCancelled                  ncclInternalError
//   everything else (errno, time-outs)     ncclSystemError
#ifndef MCCS_SHIM_ERROR_TEXT_H_
#define MCCS_SHIM_ERROR_TEXT_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "proto/shim_wire.h"

namespace mccs::shim {

ncclResult_t ResultOf(const absl::Status& status);
ncclResult_t ResultOf(wire::ErrorClass error);

// What the daemon said, as a status. REQUIRES: error is not kNone.
absl::Status StatusOf(wire::ErrorClass error, std::string_view text);

// What the daemon wrote into a communicator's region; ok if it wrote nothing.
absl::Status FailureOf(const wire::CommRegion& region);
// The same, ok too as long as calls are accepted: a rank is gone, and no call has needed it yet.
absl::Status WorkFailureOf(const wire::CommRegion& region);

// A copy that shares nothing with the original: for a status that is kept and told to several
// threads. (Abseil counts references in its own library, where the thread sanitizer cannot see it.)
inline absl::Status Unshared(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

// What to do about a communicator that failed so: a sentence.
const char* RemedyOf(const absl::Status& failure);

// Remembers the text as the thread's and the process's last error and gives the code; Report
// besides says it under NCCL_DEBUG=WARN. An ok status is ncclSuccess and leaves the text alone.
ncclResult_t Remember(const absl::Status& status);
ncclResult_t Report(const absl::Status& status);

// Remembers a failure that no call returned as the process's last error, and says it under
// NCCL_DEBUG=WARN.
void RememberAsync(std::string_view text);

// Answers of ncclGetLastError (last_error.h). LIFETIME: until the thread asks again.
// The process's last error; "" if there was none.
const char* ProcessErrorText();
// The thread's last error, else the process's.
const char* ThreadErrorText();
// The text that is given.
const char* AnswerText(std::string_view text);

// ncclGetErrorString.
const char* DescribeResult(ncclResult_t result);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_ERROR_TEXT_H_
