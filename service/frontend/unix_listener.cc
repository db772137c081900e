#include "service/frontend/unix_listener.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/tenant_selector.h"

namespace mccs {

// Lines are "0::/unified/path" and "4:cpu,cpuacct:/path/of/version/1"; a path may contain colons.
std::string CgroupIn(std::string_view proc_text) {
  std::string of_systemd;
  while (!proc_text.empty()) {
    const std::string_view line = proc_text.substr(0, proc_text.find('\n'));
    proc_text.remove_prefix(std::min(line.size() + 1, proc_text.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view hierarchy = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (hierarchy == "name=systemd") of_systemd = path;
    if (line.substr(0, first) == "0" && hierarchy.empty() && path != "/")
      return utf8::replace_invalid(path, U'?');
    // If version 1 is also in use, no process is below the root of the unified hierarchy.
    if (hierarchy.empty() && of_systemd.empty()) of_systemd = path;
  }
  return utf8::replace_invalid(of_systemd, U'?');
}

std::string CgroupOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/cgroup"));
  std::ostringstream text;
  text << file.rdbuf();
  return CgroupIn(text.str());
}

namespace {

constexpr int kBacklog = 1024;

constexpr char kCloseHint[] =
    " that tenants sent and that cannot be closed (sockets with SO_LINGER, files on FUSE); end the "
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
    if (foreign_->IsFull()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("socket ", options_.path, " accepts no processes: mccsd holds ",
                       ForeignDescriptors::kMaxTotal, " descriptors", kCloseHint));
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
    ucred credentials{};
    socklen_t length = sizeof(credentials);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
      return absl::ErrnoToStatus(errno, "cannot read the credentials of a new process");
    }
    const std::string tenant =
        options_.tenant.empty() ? UserTenantName(credentials.uid) : options_.tenant;
    return MakeChannel(GuardedSocket(std::move(fd), tenant, options_.dma_bufs, foreign_),
                       {tenant, credentials.pid});
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TenantChannel>> UnixListener::MakeChannel(GuardedSocket socket,
                                                                         TenantIdentity identity) {
  if (foreign_->IsFull(identity.tenant)) {
    return absl::PermissionDeniedError(
        absl::StrCat("rejected a process of tenant ", identity.tenant, ": mccsd holds ",
                     ForeignDescriptors::kMaxPerTenant, " descriptors", kCloseHint));
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, identity.process, 0)));
  if (!pidfd.valid() && errno == ESRCH) return absl::NotFoundError("the process has ended");
  if (!pidfd.valid()) return absl::ErrnoToStatus(errno, "cannot watch a new process for its end");
  // Read once from procfs; the daemon uses this group even if the process moves.
  identity.cgroup = CgroupOf(identity.process);
  UniqueFd doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  auto channel = std::make_unique<UnixChannel>(reactor_, std::move(socket), std::move(pidfd),
                                               std::move(doorbell), std::move(identity));
  MCCS_RETURN_IF_ERROR(channel->Watch());
  return channel;
}

}  // namespace mccs
