// From what a user wrote for a host to a numeric address.
//
// THREAD: any.
#ifndef MCCS_BASE_HOST_LOOKUP_H_
#define MCCS_BASE_HOST_LOOKUP_H_

#include <string>

#include "absl/status/statusor.h"

namespace mccs {

// An IPv4 or IPv6 address in digits, without brackets and without a scope.
bool IsNumericAddress(const std::string& host);
// 127.0.0.0/8 or ::1. False for what is not numeric.
bool IsLoopbackAddress(const std::string& host);

// The numeric address of `host`: of a name what the system's resolver knows, an IPv4 address before
// an IPv6 one, as NCCL chooses; of an address its usual spelling. kNotFound with the name and the
// resolver's word. Blocks for as long as the name's servers like: never call it in an engine.
absl::StatusOr<std::string> LookUpHost(const std::string& host);

}  // namespace mccs

#endif  // MCCS_BASE_HOST_LOOKUP_H_
