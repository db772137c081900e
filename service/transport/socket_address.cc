#include "service/transport/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

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
      absl::StrCat("'", text, "' is no address of the form HOST:PORT or [IPV6]:PORT"));
}

absl::StatusOr<SocketAddress> Resolve(const Endpoint& endpoint, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | AI_PASSIVE;  // asks nobody, so does not block
  const std::string port = std::to_string(endpoint.port);
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", endpoint.host, "' is no numeric address: ", gai_strerror(error)));
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Endpoint ToEndpoint(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return {.host = text, .port = ntohs(in->sin_port)};
  }
  if (address.family() == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
    return {.host = text, .port = ntohs(in6->sin6_port)};
  }
  return {};
}

Endpoint LocalEndpoint(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return {};
  return ToEndpoint(address);
}

Endpoint RemoteEndpoint(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return {};
  return ToEndpoint(address);
}

}  // namespace mccs
