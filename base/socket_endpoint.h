// The addresses of sockets.
//
// THREAD: any.
#ifndef MCCS_BASE_SOCKET_ENDPOINT_H_
#define MCCS_BASE_SOCKET_ENDPOINT_H_

#include <sys/socket.h>

#include <string>

#include "base/endpoint.h"

namespace mccs {

// Empty for other families than IPv4 and IPv6.
Endpoint ToEndpoint(const sockaddr& address);
// Of this end and of the other one. Empty if the socket has none.
Endpoint LocalEndpoint(int fd);
Endpoint RemoteEndpoint(int fd);

// The smallest network that one machine usually has alone: an IPv4 address, also one that IPv6 maps
// ("10.0.0.1"), or the /64 of an IPv6 address ("2001:db8:0:1::/64"). Another text is returned as it
// is.
std::string NetworkOf(const std::string& address);

}  // namespace mccs

#endif  // MCCS_BASE_SOCKET_ENDPOINT_H_
