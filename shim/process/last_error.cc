#include "shim/process/last_error.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shim/config/diagnostics.h"
#include "shim/daemon/error_message.h"
#include "shim/process/process.h"

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
  static thread_local ResultBuffer* buffer = nullptr;
  struct ReturnAtExit {
    ~ReturnAtExit() {
      const std::lock_guard lock(unused_buffers_mutex);
      buffer->next = std::exchange(unused_buffers, buffer);
      buffer = nullptr;
    }
  };
  if (buffer == nullptr) {
    static thread_local ReturnAtExit return_at_exit;
    static_cast<void>(return_at_exit);
    const std::lock_guard lock(unused_buffers_mutex);
    buffer = unused_buffers == nullptr ? new ResultBuffer
                                       : std::exchange(unused_buffers, unused_buffers->next);
  }
  return buffer->text;
}

const char* CopyToThreadBuffer(std::string_view text) {
  char* const buffer = ThreadBuffer();
  Copy(text, buffer);
  return buffer;
}

// Stores a failure that no call returned as the process's last error, and logs it under
// NCCL_DEBUG=WARN.
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

// "rank R of N (CUDA device D): FAILURE; REMEDY".
std::string Describe(const Communicator& comm, const absl::Status& failure) {
  return absl::StrCat("rank ", comm.rank(), " of ", comm.ranks(), " (CUDA device ", comm.device(),
                      "): ", failure.message(), "; ", RemedyOf(failure));
}

}  // namespace

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

void RecordFailure(Communicator& comm) {
  // Locked, so that a thread that finds the failure already taken also finds its message stored.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const absl::Status failure = comm.TakeFailure();
  if (!failure.ok()) StoreAsyncError(Describe(comm, failure));
}

void RecordFailures() { Process::Get().handles().ForEach(RecordFailure); }

const char* LastErrorMessage(ncclComm_t handle) {
  if (handle == nullptr) {
    RecordFailures();
    return ProcessErrorMessage();
  }
  if (const CommRef comm = Process::Get().handles().Find(handle)) {
    if (const absl::Status failure = comm->Failure(); !failure.ok()) {
      return CopyToThreadBuffer(Describe(*comm, failure));
    }
  }
  return ThreadErrorMessage();
}

}  // namespace mccs::shim
