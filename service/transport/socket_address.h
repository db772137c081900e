// Endpoint to sockaddr and back.
//
// THREAD: any.
#ifndef MCCS_SERVICE_TRANSPORT_SOCKET_ADDRESS_H_
#define MCCS_SERVICE_TRANSPORT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include "absl/status/statusor.h"
#include "service/transport/network.h"

namespace mccs {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// Converts a numeric address. Names are resolved elsewhere (base/host_lookup.h). An empty host is
// the wildcard address. `family`: AF_UNSPEC, or the required one. kInvalidArgument: names the
// invalid address.
absl::StatusOr<SocketAddress> Resolve(const Endpoint& endpoint, int family);

Endpoint ToEndpoint(const SocketAddress& address);

// The local end of a socket; empty when it has none.
Endpoint LocalEndpoint(int fd);

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_SOCKET_ADDRESS_H_
