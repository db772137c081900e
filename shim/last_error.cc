#include "shim/last_error.h"

#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "shim/error_message.h"
#include "shim/process.h"

namespace mccs::shim {
namespace {

// "rank R of N (CUDA device D): FAILURE; REMEDY".
std::string Describe(const Communicator& comm, const absl::Status& failure) {
  return absl::StrCat("rank ", comm.rank(), " of ", comm.ranks(), " (CUDA device ", comm.device(),
                      "): ", failure.message(), "; ", RemedyOf(failure));
}

}  // namespace

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
