#include "service/transport/socket_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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
  return ToEndpoint(reinterpret_cast<const sockaddr&>(address.storage));
}

namespace {

// Connections that the kernel queues while the engine is busy.
constexpr int kListenBacklog = 1024;

// Sets the DSCP. The two lowest bits of the field belong to ECN, and the kernel preserves them. On
// an error the socket sends without the mark.
void MarkSocket(int fd, uint8_t dscp) {
  const int field = dscp << 2;
  int family = AF_INET;
  socklen_t size = sizeof(family);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  if (family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &field, sizeof(field));
  } else {
    setsockopt(fd, IPPROTO_IP, IP_TOS, &field, sizeof(field));
  }
}

// A socket whose readiness the reactor reports.
class WatchedSocket {
 public:
  WatchedSocket(Reactor& reactor, UniqueFd fd) : reactor_(reactor), fd_(std::move(fd)) {}
  ~WatchedSocket() { reactor_.Unwatch(fd_.get()); }
  WatchedSocket(const WatchedSocket&) = delete;
  WatchedSocket& operator=(const WatchedSocket&) = delete;

  absl::Status Watch() { return reactor_.Watch(fd_.get(), &readiness_); }

 protected:
  Reactor& reactor_;
  const UniqueFd fd_;
  const Endpoint local_ = LocalEndpoint(fd_.get());
  Readiness readiness_;
};

class SocketConnection final : public Connection, public WatchedSocket {
 public:
  SocketConnection(Reactor& reactor, UniqueFd fd, Endpoint remote)
      : WatchedSocket(reactor, std::move(fd)), remote_(std::move(remote)) {}

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override;
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override;
  bool readable() const override { return readiness_.readable; }
  bool writable() const override { return readiness_.writable; }
  void SetWaker(Waker* waker) override {
    readiness_.waker = waker;
    if (readable() || writable()) Wake();
  }
  void Mark(uint8_t dscp) override { MarkSocket(fd_.get(), dscp); }
  Endpoint local() const override { return local_; }
  Endpoint remote() const override { return remote_; }

 private:
  void Wake() {
    if (readiness_.waker != nullptr) readiness_.waker->Wake();
  }
  // A call would block. Waits for the kernel's next event if one will come; else the caller retries
  // at once.
  void MarkBlocked(int error, bool* ready);
  absl::Status Break(std::string_view what, int error);

  const Endpoint remote_;
  absl::Status broken_;
  bool drained_ = false;  // broken, and all received bytes are read
};

msghdr Message(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min<size_t>(pieces.size(), IOV_MAX);
  return message;
}

size_t TotalBytes(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

// Whether the error is temporary.
bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

absl::StatusOr<size_t> SocketConnection::Write(std::span<const iovec> pieces) {
  if (!broken_.ok()) return broken_;
  const msghdr message = Message(pieces);
  const ssize_t written = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0) {
    if (!WouldBlock(errno)) return Break("writing to", errno);
    MarkBlocked(errno, &readiness_.writable);
    return 0;
  }
  // A partial write means that the stream is full; the kernel reports when it has room.
  if (static_cast<size_t>(written) < TotalBytes(pieces)) readiness_.writable = false;
  return static_cast<size_t>(written);
}

// After a failed write, bytes that the peer had sent before can still be read.
absl::StatusOr<size_t> SocketConnection::Read(std::span<const iovec> pieces) {
  if (drained_) return broken_;
  msghdr message = Message(pieces);
  const ssize_t got = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  if (got < 0) {
    const int error = errno;
    drained_ = !broken_.ok() || !WouldBlock(error);
    if (drained_) return broken_.ok() ? Break("reading from", error) : broken_;
    MarkBlocked(error, &readiness_.readable);
    return 0;
  }
  const size_t asked = TotalBytes(pieces);
  if (got == 0 && asked > 0) {
    drained_ = true;
    return broken_.ok() ? Break("reading from", 0) : broken_;
  }
  // A partial read means that the stream is empty, unless its end comes next, for which there would
  // be no further event.
  if (static_cast<size_t>(got) < asked) {
    if (readiness_.hangup) {
      Wake();
    } else {
      readiness_.readable = false;
    }
  }
  return static_cast<size_t>(got);
}

void SocketConnection::MarkBlocked(int error, bool* ready) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    *ready = false;
  } else {
    Wake();
  }
}

absl::Status SocketConnection::Break(std::string_view what, int error) {
  const std::string reason =
      error == 0 ? std::string("closed by the peer") : std::string(std::strerror(error));
  broken_ =
      absl::UnavailableError(absl::StrCat(std::string(what), " ", ToString(remote_), ": ", reason));
  readiness_.readable = readiness_.writable = readiness_.hangup = true;
  Wake();  // The owner must get the error, and no further event reports it.
  return broken_;
}

class SocketListener final : public Listener, public WatchedSocket {
 public:
  SocketListener(Reactor& reactor, const SocketOptions& options, UniqueFd fd)
      : WatchedSocket(reactor, std::move(fd)), options_(options) {}

  absl::StatusOr<std::unique_ptr<Connection>> Accept() override;
  void Mark(uint8_t dscp) override { MarkSocket(fd_.get(), dscp); }  // accepted sockets inherit it
  Endpoint local() const override { return local_; }

 private:
  const SocketOptions options_;
};

absl::StatusOr<UniqueFd> OpenSocket(int family, const SocketOptions& options) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot open a TCP socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  // Set before connect and listen, because the first segment negotiates the window scale. Accepted
  // sockets inherit them.
  if (options.send_buffer_bytes > 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &options.send_buffer_bytes, sizeof(int));
  }
  if (options.receive_buffer_bytes > 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &options.receive_buffer_bytes, sizeof(int));
  }
  return fd;
}

// Options of all streams, incoming and outgoing.
void SetUpStream(int fd, const SocketOptions& options) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // Timeout for unacknowledged data, and, if idle, for unanswered keepalive probes.
  const unsigned int dead_after_ms = static_cast<unsigned int>(options.dead_after_ms);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_after_ms, sizeof(dead_after_ms));
  const int probe_after_s = std::max(options.dead_after_ms / 3000, 1);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_after_s, sizeof(probe_after_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_after_s, sizeof(probe_after_s));
}

void ResetOnClose(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

absl::StatusOr<std::unique_ptr<Connection>> SocketListener::Accept() {
  if (!readiness_.readable) return nullptr;
  SocketAddress from;
  from.length = sizeof(from.storage);
  UniqueFd fd(accept4(fd_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EAGAIN) readiness_.readable = false;
    // The incoming stream was reset, or the call was interrupted: not an error of the listener.
    if (WouldBlock(error) || error == ECONNABORTED || error == EPROTO) return nullptr;
    return absl::ErrnoToStatus(error,
                               absl::StrCat("cannot accept a connection at ", ToString(local_)));
  }
  SetUpStream(fd.get(), options_);
  auto connection = std::make_unique<SocketConnection>(reactor_, std::move(fd), ToEndpoint(from));
  MCCS_RETURN_IF_ERROR(connection->Watch());
  return connection;
}

absl::Status BindSource(int fd, int family, const ConnectOptions& options) {
  if (options.source_host.empty() && options.source_port == 0) return absl::OkStatus();
  const Endpoint source{.host = options.source_host, .port = options.source_port};
  absl::StatusOr<SocketAddress> address = Resolve(source, family);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("source address: ", address.status().message()));
  }
  if (options.source_port == 0) {  // The port is chosen when the whole 5-tuple is known.
    const int on = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  }
  if (bind(fd, address->get(), address->length) == 0) return absl::OkStatus();
  if (errno == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat("source port ", options.source_port, " in use"));
  }
  if (errno == EADDRNOTAVAIL) {
    return absl::InvalidArgumentError(
        absl::StrCat("source address ", options.source_host, " is not an address of this host"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot bind to source ", ToString(source)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> SocketNetwork::Listen(const Endpoint& at) {
  MCCS_ASSIGN_OR_RETURN(const SocketAddress address, Resolve(at, AF_UNSPEC));
  MCCS_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(address.family(), options_));
  if (bind(fd.get(), address.get(), address.length) != 0 || listen(fd.get(), kListenBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen at ", ToString(at)));
  }
  auto listener = std::make_unique<SocketListener>(reactor_, options_, std::move(fd));
  MCCS_RETURN_IF_ERROR(listener->Watch());
  return listener;
}

absl::StatusOr<std::unique_ptr<Connection>> SocketNetwork::Connect(const Endpoint& to,
                                                                   const ConnectOptions& options) {
  MCCS_ASSIGN_OR_RETURN(const SocketAddress address, Resolve(to, AF_UNSPEC));
  MCCS_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(address.family(), options_));
  SetUpStream(fd.get(), options_);
  if (absl::Status status = BindSource(fd.get(), address.family(), options); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("cannot connect to ", ToString(to), ": ", status.message()));
  }
  if (options.dscp != 0) MarkSocket(fd.get(), options.dscp);
  if (options.source_port != 0) ResetOnClose(fd.get());
  if (connect(fd.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) {
    if (errno == EADDRNOTAVAIL && options.source_port != 0) {
      return absl::AlreadyExistsError(absl::StrCat("cannot connect to ", ToString(to),
                                                   ": source port ", options.source_port,
                                                   " in use for that destination"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot connect to ", ToString(to)));
  }
  auto connection = std::make_unique<SocketConnection>(reactor_, std::move(fd), to);
  MCCS_RETURN_IF_ERROR(connection->Watch());
  return connection;
}

bool SocketNetwork::HasAddress(const std::string& address) {
  if (address.empty()) return false;
  const absl::StatusOr<SocketAddress> resolved = Resolve({.host = address, .port = 0}, AF_UNSPEC);
  if (!resolved.ok()) return false;
  // A datagram socket does not use up a port of streams.
  const UniqueFd fd(socket(resolved->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.valid() && bind(fd.get(), resolved->get(), resolved->length) == 0;
}

bool SocketNetwork::HasLink(const std::string& address) {
  ifaddrs* list = nullptr;
  if (address.empty() || getifaddrs(&list) != 0) return true;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || ToEndpoint(*entry->ifa_addr).host != address) continue;
    return (entry->ifa_flags & IFF_RUNNING) != 0;
  }
  return true;
}

}  // namespace mccs
