// A network address: host and port; and how a configured host becomes one.
//
// THREAD: any.
#ifndef MCCS_BASE_ENDPOINT_H_
#define MCCS_BASE_ENDPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mccs {

struct Endpoint {
  std::string host;   // numeric address
  uint16_t port = 0;  // 0 in Listen and as a source: chosen by the system

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "10.0.1.2:7400", "[::1]:7400".
std::string ToString(const Endpoint& endpoint);
// The inverse; the host may be a name. kInvalidArgument: names the text.
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text);

// An IPv4 or IPv6 address in digits, without brackets and without a scope.
bool IsNumericAddress(const std::string& host);
// 0.0.0.0 or ::, in this spelling: all addresses of a host.
bool IsWildcardAddress(const std::string& host);
// 127.0.0.0/8 or ::1. False for what is not numeric.
bool IsLoopbackAddress(const std::string& host);

// The numeric address of `host`: for a name, the resolver's IPv4 address if there is one, else an
// IPv6 address (like NCCL); for an address, its canonical spelling. kNotFound: contains the name
// and the resolver's error. Blocks until the name servers answer: never call it in an engine.
absl::StatusOr<std::string> ResolveHost(const std::string& host);

}  // namespace mccs

#endif  // MCCS_BASE_ENDPOINT_H_
