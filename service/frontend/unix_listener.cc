#include "service/frontend/unix_listener.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/tenant_selector.h"
#include "service/frontend/peer_process.h"

namespace mccs {

namespace {

constexpr int kBacklog = 1024;

constexpr char kCloseHint[] =
    " that cannot be closed (sockets with SO_LINGER, files on FUSE); end the "
    "processes that block the close";

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("invalid socket path '", path, "': it has ",
                                                   path.size(), " bytes; 1 to ",
                                                   sizeof(address.sun_path) - 1, " are possible"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

// A listener with a full backlog counts too: connecting would block.
bool HasListener(const sockaddr_un& address) {
  UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;
}

// Removes a socket file that a dead daemon left at the path.
absl::Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists and is not a socket; choose another path, or move it away"));
  }
  if (HasListener(address)) {
    return absl::AlreadyExistsError(absl::StrCat("another process listens on socket ", path,
                                                 "; stop the other mccsd, or choose another path"));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

constexpr int kMostLastMessages = 64;

class UnixChannel final : public TenantChannel {
 public:
  UnixChannel(Reactor& reactor, GuardedSocket socket, UniqueFd pidfd, UniqueFd doorbell,
              TenantIdentity identity)
      : reactor_(reactor),
        socket_(std::move(socket)),
        pidfd_(std::move(pidfd)),
        doorbell_(std::move(doorbell)),
        identity_(std::move(identity)) {}

  absl::Status Watch() {
    MCCS_RETURN_IF_ERROR(reactor_.Watch(socket_.fd(), &socket_ready_));
    MCCS_RETURN_IF_ERROR(reactor_.Watch(pidfd_.get(), &process_ended_));
    return reactor_.Watch(doorbell_.get(), &doorbell_rang_);
  }

  ~UnixChannel() override {
    reactor_.Unwatch(socket_.fd());
    reactor_.Unwatch(pidfd_.get());
    reactor_.Unwatch(doorbell_.get());
  }

  bool HasInput() override {
    // The doorbell only ends the sleep. It is never read: the tenant shares the file and could
    // have made it block; each ring is an edge event, whatever the count.
    doorbell_rang_.readable = false;
    return process_ended_.readable || socket_ready_.readable || socket_ready_.hangup;
  }
  absl::StatusOr<bool> Receive(TenantMessage* message) override;
  absl::Status Send(std::span<const std::byte> message, std::span<const int> fds) override {
    return socket_.Send(message, fds);
  }
  int doorbell() const override { return doorbell_.get(); }
  const TenantIdentity& identity() const override { return identity_; }

 private:
  Reactor& reactor_;
  GuardedSocket socket_;
  const UniqueFd pidfd_, doorbell_;
  const TenantIdentity identity_;
  Readiness socket_ready_, process_ended_, doorbell_rang_;
  // The number of messages to receive after the process has ended: it may have reported an error
  // just before. A child may still send on the socket.
  int last_messages_ = kMostLastMessages;
};

absl::StatusOr<bool> UnixChannel::Receive(TenantMessage* message) {
  if (!HasInput()) return false;
  const bool ended = process_ended_.readable;
  absl::StatusOr<bool> received = false;
  if (!ended || last_messages_ > 0) received = socket_.Receive(message);
  if (received.ok() && *received) {
    last_messages_ -= ended ? 1 : 0;
    return true;
  }
  if (received.ok()) socket_ready_.readable = false;
  const bool only_ended = received.ok() || absl::IsUnavailable(received.status());
  if (ended && only_ended) return absl::UnavailableError("the process has ended");
  return received;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Open(const UnixListenerOptions& options,
                                                                 Reactor& reactor) {
  MCCS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(options.path));
  MCCS_RETURN_IF_ERROR(RemoveStale(options.path, address));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "socket(AF_UNIX)");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create socket ", options.path));
  }
  // From here on, an error removes the file. Nobody can connect before listen.
  std::unique_ptr<UnixListener> listener(new UnixListener(options, reactor, std::move(fd)));
  const auto id = [](const std::optional<uint32_t>& wanted) { return wanted.value_or(UINT32_MAX); };
  if ((options.uid || options.gid) &&
      chown(options.path.c_str(), id(options.uid), id(options.gid)) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot give socket ", options.path,
                                            " its uid and gid; run mccsd as root, or omit them"));
  }
  if (chmod(options.path.c_str(), options.mode) != 0 ||
      listen(listener->socket_.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on socket ", options.path));
  }
  MCCS_RETURN_IF_ERROR(reactor.Watch(listener->socket_.get(), &listener->readiness_));
  return listener;
}

UnixListener::~UnixListener() {
  reactor_.Unwatch(socket_.get());
  unlink(options_.path.c_str());
}

absl::StatusOr<std::unique_ptr<TenantChannel>> UnixListener::Accept() {
  while (readiness_.readable) {
    // A new process may already have sent descriptors.
    if (foreign_->IsListenerFull(options_.path)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "socket ", options_.path, " accepts no processes: mccsd holds ",
          foreign_->OfListener(options_.path), " descriptors of its processes", kCloseHint));
    }
    UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) {
        readiness_.readable = false;
        break;
      }
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot accept a connection on socket ", options_.path));
    }
    return MakeChannel(std::move(fd));
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TenantChannel>> UnixListener::MakeChannel(UniqueFd fd) {
  MCCS_ASSIGN_OR_RETURN(PeerProcess peer, IdentifyPeer(fd.get()));
  TenantIdentity identity{
      .tenant = options_.tenant.empty() ? UserTenantName(peer.uid) : options_.tenant,
      .process = peer.process,
      .cgroup = std::move(peer.cgroup)};
  const std::string counted_as = options_.counted_as
                                     ? options_.counted_as({identity.tenant, identity.cgroup})
                                     : identity.tenant;
  GuardedSocket socket(std::move(fd), {.tenant = counted_as, .listener = options_.path},
                       options_.dma_bufs, foreign_);
  if (foreign_->IsFull(counted_as)) {
    return absl::PermissionDeniedError(
        absl::StrCat("rejected a process of tenant ", counted_as, ": mccsd holds ",
                     foreign_->OfTenant(counted_as), " of its descriptors", kCloseHint));
  }
  UniqueFd doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  auto channel = std::make_unique<UnixChannel>(reactor_, std::move(socket), std::move(peer.pidfd),
                                               std::move(doorbell), std::move(identity));
  MCCS_RETURN_IF_ERROR(channel->Watch());
  return channel;
}

}  // namespace mccs
