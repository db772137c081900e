#include "service/transport/rdma/verbs.h"

namespace mccs {

std::string_view Name(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kFlushed:
      return "work request flushed";
    case CompletionStatus::kLocalProtection:
      return "local protection error";
    case CompletionStatus::kLocalError:
      return "local operation error";
    case CompletionStatus::kRemoteAccess:
      return "remote access error";
    case CompletionStatus::kRemoteError:
      return "remote operation error";
    case CompletionStatus::kRetriesExceeded:
      return "transport retry counter exceeded";
    case CompletionStatus::kNotReady:
      return "receiver not ready, retry counter exceeded";
    case CompletionStatus::kFatal:
      return "fatal error";
  }
  return "unknown";
}

}  // namespace mccs
