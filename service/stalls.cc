#include "service/stalls.h"

#include "absl/strings/str_cat.h"

namespace mccs {

std::string Describe(const AwaitedHost& awaited) {
  const std::string& host = awaited.host;
  switch (awaited.cause) {
    case StallCause::kData:
      return absl::StrCat(host, " sends no data");
    case StallCause::kAcknowledgement:
      return absl::StrCat(host, " acknowledges no data");
    case StallCause::kCredit:
      return absl::StrCat(host, " frees no slots");
    case StallCause::kConnection:
      return absl::StrCat("the connection to ", host, " accepts no data");
    case StallCause::kRate:
      return absl::StrCat("rates, send windows or classes delay the data for ", host);
    case StallCause::kDevice:
      return absl::StrCat("the device of ", host, " is not done");
    case StallCause::kRegistration:
      return absl::StrCat("the NICs of ", host, " have not registered the buffers");
    case StallCause::kDaemon:
      break;
  }
  return absl::StrCat("the daemon of ", host, " does not answer");
}

}  // namespace mccs
