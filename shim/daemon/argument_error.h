// Errors for invalid arguments of the program's calls.
#ifndef MCCS_SHIM_DAEMON_ARGUMENT_ERROR_H_
#define MCCS_SHIM_DAEMON_ARGUMENT_ERROR_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mccs::shim {

// kInvalidArgument: "ncclAllReduce: …".
template <typename... Parts>
absl::Status ArgumentError(std::string_view function, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(function.data(), function.size()), ": ", parts...));
}

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_ARGUMENT_ERROR_H_
