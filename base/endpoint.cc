#include "base/endpoint.h"

#include <charconv>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mccs {

std::string ToString(const Endpoint& endpoint) {
  const bool bracket = endpoint.host.find(':') != std::string::npos;
  return bracket ? absl::StrCat("[", endpoint.host, "]:", endpoint.port)
                 : absl::StrCat(endpoint.host, ":", endpoint.port);
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    endpoint.host = text.substr(0, colon);
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    }
    const auto parsed = std::from_chars(begin, end, endpoint.port);
    if (!endpoint.host.empty() && begin != end && parsed.ec == std::errc() && parsed.ptr == end) {
      return endpoint;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not an address: expected HOST:PORT or [IPV6]:PORT"));
}

}  // namespace mccs
