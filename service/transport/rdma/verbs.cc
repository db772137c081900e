#include "service/transport/rdma/verbs.h"

#include <arpa/inet.h>

#include <algorithm>

namespace mccs {

std::string MappedAddress(const Gid& gid) {
  static constexpr Gid kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr size_t kPrefixBytes = 12;
  if (!std::equal(gid.begin(), gid.begin() + kPrefixBytes, kPrefix.begin())) return "";
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &gid[kPrefixBytes], text, sizeof(text)) != nullptr ? text : "";
}

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

std::string_view Name(RegistrationMeans means) {
  switch (means) {
    case RegistrationMeans::kPinned:
      return "pinned";
    case RegistrationMeans::kDmaBuf:
      return "dma-buf";
  }
  return "";
}

}  // namespace mccs
