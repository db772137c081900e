// The network over TCP sockets, IPv4 and IPv6.
//
// Connect requires a numeric address and never blocks.
//
// Source ports: several streams may share one if their destinations differ (the 5-tuple must be
// unique). Closing a stream with a chosen source port resets it, so that its 5-tuple can be reused
// at once. The owner must ensure before that its data was delivered (by a lane's acknowledgements).
//
// THREAD: the owning engine only; the same as the reactor's.
#ifndef MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_
#define MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_

#include <sys/socket.h>

#include <memory>

#include "absl/status/statusor.h"
#include "base/reactor.h"
#include "base/socket_endpoint.h"
#include "service/transport/network.h"

namespace mccs {

// An Endpoint as a sockaddr. THREAD: any, like the functions below.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// Converts a numeric address. Names are resolved elsewhere (base/endpoint.h). An empty host is
// the wildcard address. `family`: AF_UNSPEC, or the required one. kInvalidArgument: names the
// invalid address.
absl::StatusOr<SocketAddress> Resolve(const Endpoint& endpoint, int family);

Endpoint ToEndpoint(const SocketAddress& address);

struct SocketOptions {
  // Kernel buffers per stream. 0: the kernel adapts them to the path's bandwidth × delay (a fixed
  // size would limit a long path). See bench/lane_bench.cc for loopback.
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  // A stream breaks if its peer does not answer for this time (host or network down). The kernel
  // reports the death of the peer's process at once.
  int dead_after_ms = 15'000;
};

class SocketNetwork final : public Network {
 public:
  // LIFETIME: `reactor` outlives the network and all its streams and listeners.
  explicit SocketNetwork(Reactor& reactor, const SocketOptions& options = {})
      : reactor_(reactor), options_(options) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& at) override;
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const Endpoint& to,
                                                      const ConnectOptions& options) override;
  bool HasAddress(const std::string& address) override;
  bool HasLink(const std::string& address) override;

  // Polls the reactor without sleeping. Not needed in a loop that calls Reactor::Wait itself.
  bool Poll() override { return reactor_.Wait(0) > 0; }

 private:
  Reactor& reactor_;
  SocketOptions options_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_
