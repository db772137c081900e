#include "service/transport/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<SocketAddress> Resolve(const Endpoint& endpoint, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags =
      AI_NUMERICSERV | AI_NUMERICHOST | AI_PASSIVE;  // no look-up, so it does not block
  const std::string port = std::to_string(endpoint.port);
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid address '", endpoint.host,
                     "': expected a numeric address: ", gai_strerror(error)));
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

}  // namespace mccs
