// A network address: host and port.
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

}  // namespace mccs

#endif  // MCCS_BASE_ENDPOINT_H_
