// Resolves a host that a user has configured to a numeric address.
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

// The numeric address of `host`: for a name, the resolver's IPv4 address if there is one, else an
// IPv6 address (like NCCL); for an address, its canonical spelling. kNotFound: contains the name
// and the resolver's error. Blocks until the name servers answer: never call it in an engine.
absl::StatusOr<std::string> ResolveHost(const std::string& host);

}  // namespace mccs

#endif  // MCCS_BASE_HOST_LOOKUP_H_
