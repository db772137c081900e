#include "base/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <memory>

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
      absl::StrCat("invalid address '", text, "': expected HOST:PORT or [IPV6]:PORT"));
}

bool IsNumericAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsWildcardAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

bool IsLoopbackAddress(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<std::string> ResolveHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = host.empty() ? EAI_NONAME : getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return absl::NotFoundError(
        absl::StrCat("no address for host '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  const addrinfo* chosen = list;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) {
      chosen = entry;
      break;
    }
  }
  char text[NI_MAXHOST];
  if (const int failed = getnameinfo(chosen->ai_addr, chosen->ai_addrlen, text, sizeof(text),
                                     nullptr, 0, NI_NUMERICHOST);
      failed != 0) {
    return absl::NotFoundError(
        absl::StrCat("no address for host '", host, "': ", gai_strerror(failed)));
  }
  return std::string(text);
}

}  // namespace mccs
