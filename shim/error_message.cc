#include "shim/error_message.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "shim/diagnostics.h"
#include "shim/last_error.h"

namespace mccs::shim {
namespace {

constexpr size_t kTextBytes = 1024;

// The thread's last error: a plain array, so that it is readable until the thread and the process
// end.
thread_local char thread_text[kTextBytes];

std::mutex process_text_mutex;
char process_text[kTextBytes];  // guarded by process_text_mutex

void Copy(std::string_view from, char* to) {
  const size_t bytes = std::min(from.size(), kTextBytes - 1);
  std::memcpy(to, from.data(), bytes);
  to[bytes] = '\0';
}

// Buffers of ended threads are reused by other threads and never freed: the program may still read
// one.
struct ResultBuffer {
  char text[kTextBytes];
  ResultBuffer* next = nullptr;
};
std::mutex unused_buffers_mutex;
ResultBuffer* unused_buffers = nullptr;  // guarded by unused_buffers_mutex

// The thread's result buffer. On the heap: a library opened by dlopen gets only about 1.6 KiB of
// thread-local memory.
char* ThreadBuffer() {
  static thread_local ResultBuffer* answer = nullptr;
  struct ReturnAtExit {
    ~ReturnAtExit() {
      const std::lock_guard lock(unused_buffers_mutex);
      answer->next = std::exchange(unused_buffers, answer);
      answer = nullptr;
    }
  };
  if (answer == nullptr) {
    static thread_local ReturnAtExit return_at_exit;
    static_cast<void>(return_at_exit);
    const std::lock_guard lock(unused_buffers_mutex);
    answer = unused_buffers == nullptr ? new ResultBuffer
                                       : std::exchange(unused_buffers, unused_buffers->next);
  }
  return answer->text;
}

}  // namespace

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

ncclResult_t StoreLastError(const absl::Status& status) {
  if (status.ok()) return ncclSuccess;
  RecordFailures();
  const std::string_view text(status.message().data(), status.message().size());
  Copy(text, thread_text);
  std::lock_guard lock(process_text_mutex);
  Copy(text, process_text);
  return ResultOf(status);
}

ncclResult_t Report(const absl::Status& status) {
  if (!status.ok()) LogLine(Verbosity::kWarn, {status.message().data(), status.message().size()});
  return StoreLastError(status);
}

void StoreAsyncError(std::string_view text) {
  LogLine(Verbosity::kWarn, text);
  std::lock_guard lock(process_text_mutex);
  Copy(text, process_text);
}

const char* ProcessErrorMessage() {
  std::lock_guard lock(process_text_mutex);
  return CopyToThreadBuffer(process_text);
}

const char* ThreadErrorMessage() {
  return thread_text[0] != '\0' ? CopyToThreadBuffer(thread_text) : ProcessErrorMessage();
}

const char* CopyToThreadBuffer(std::string_view text) {
  char* const answer = ThreadBuffer();
  Copy(text, answer);
  return answer;
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
