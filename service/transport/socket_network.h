// The network over TCP sockets, IPv4 and IPv6.
//
// A Connect with a numeric address never blocks. A name is resolved with getaddrinfo, which may
// block for as long as the resolver does: configuration carries numeric addresses, and whoever uses
// names accepts that (it happens when a communicator is made, not while it works).
//
// Source ports: several streams may share one as long as they go to different places (the 5-tuple
// is what must be unique). A stream with a chosen source port is reset when it is closed, not shut
// down in order, so that its 5-tuple can be used again at once; whoever closes one has made sure
// before that what it wrote was delivered (a lane's acknowledgements do that).
//
// THREAD: the owning engine only; the same as the reactor's.
#ifndef MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_
#define MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_

#include <memory>

#include "base/reactor.h"
#include "service/transport/network.h"

namespace mccs {

struct SocketOptions {
  // Kernel buffers per stream; 0 leaves them to the kernel, which grows them with the path's
  // bandwidth × delay (a fixed size would cap a long path). See bench/lane_bench.cc for loopback.
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  // A peer that has not answered for so long is gone (its host, or the way there), and the stream
  // breaks. A process that dies is noticed at once, by its kernel's word.
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

  // Looks at the reactor without sleeping. A loop that calls Reactor::Wait itself need not.
  bool Poll() override { return reactor_.Wait(0) > 0; }

 private:
  Reactor& reactor_;
  SocketOptions options_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_SOCKET_NETWORK_H_
