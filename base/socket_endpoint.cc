#include "base/socket_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

using GetName = int (*)(int, sockaddr*, socklen_t*);

Endpoint EndpointOf(int fd, GetName get_name) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto& address = reinterpret_cast<sockaddr&>(storage);
  return get_name(fd, &address, &size) == 0 ? ToEndpoint(address) : Endpoint{};
}

}  // namespace

Endpoint ToEndpoint(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
    return {.host = text, .port = ntohs(in.sin_port)};
  }
  if (address.sa_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
    return {.host = text, .port = ntohs(in6.sin6_port)};
  }
  return {};
}

Endpoint LocalEndpoint(int fd) { return EndpointOf(fd, getsockname); }
Endpoint RemoteEndpoint(int fd) { return EndpointOf(fd, getpeername); }

std::string NetworkOf(const std::string& address) {
  in6_addr bytes{};
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return address;
  char text[INET6_ADDRSTRLEN];
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    inet_ntop(AF_INET, &bytes.s6_addr[12], text, sizeof(text));
    return text;
  }
  std::fill(std::begin(bytes.s6_addr) + 8, std::end(bytes.s6_addr), uint8_t{0});
  inet_ntop(AF_INET6, &bytes, text, sizeof(text));
  return absl::StrCat(text, "/64");
}

}  // namespace mccs
