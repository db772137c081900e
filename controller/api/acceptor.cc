#include "controller/api/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/socket_endpoint.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr int kConnectionsOfTheKernel = 1024;  // that wait to be accepted

// Descriptors that the controller needs for other things than connections: its store, its log,
// gRPC.
constexpr size_t kOwnDescriptors = 128;

constexpr int kRetryMs = 100;  // without a descriptor, or with too many connections

size_t MostConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= 2 * kOwnDescriptors)
    return kOwnDescriptors;
  return limit.rlim_cur - kOwnDescriptors;
}

uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

absl::StatusOr<UniqueFd> ListenAt(const addrinfo& at, int port) {
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  // The port has the same place in both families.
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port));
  UniqueFd fd(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at.ai_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), at.ai_addrlen) != 0 ||
      listen(fd.get(), kConnectionsOfTheKernel) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen");
  }
  return fd;
}

}  // namespace

absl::Status OpenConnections::Add(int fd, MonotonicNs now) {
  Erase(fd);  // Its number was free, so the connection that had it has been closed.
  std::string address = NetworkOf(RemoteEndpoint(fd).host);
  const auto held = [&] {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? 0 : found->second;
  };
  if (held() + open_.size() >= most_) EraseClosed(now);
  if (held() + open_.size() >= most_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "address ", address, " has ", held(), " of ", most_, " connections, ", most_ - open_.size(),
        " are free, and an address may not have more than it "
        "leaves free"));
  }
  ++by_address_[address];
  open_[fd] = {CookieOf(fd), std::move(address)};
  return absl::OkStatus();
}

void OpenConnections::Erase(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return;
  const auto count = by_address_.find(found->second.address);
  if (--count->second == 0) by_address_.erase(count);
  open_.erase(found);
}

void OpenConnections::EraseClosed(MonotonicNs now) {
  if (now < looks_again_at_) return;
  looks_again_at_ = now + kRetryMs * kNsPerMs;
  std::vector<int> closed;
  for (const auto& [fd, connection] : open_) {
    if (CookieOf(fd) != connection.cookie) closed.push_back(fd);
  }
  for (const int fd : closed) Erase(fd);
}

Acceptor::Acceptor(Log* log)
    : warnings_(*log, "reason"),
      open_(MostConnections()),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, Log* log) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(log));
  if (const absl::Status bound = acceptor->Bind(address); !bound.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", std::string(bound.message()),
                     ": it is in use or not an address of this machine; stop the other program, or "
                     "choose another address with --listen ADDRESS:PORT"));
  }
  return acceptor;
}

absl::Status Acceptor::Bind(const std::string& address) {
  MCCS_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
  port_ = endpoint.port;
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found); error != 0)
    return absl::InvalidArgumentError(gai_strerror(error));
  absl::Status last;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    absl::StatusOr<UniqueFd> listener = ListenAt(*each, port_);
    last = listener.status();
    if (!listener.ok()) continue;
    port_ = LocalEndpoint(listener->get()).port;
    listeners_.push_back(*std::move(listener));
  }
  freeaddrinfo(found);
  // A name may also have an address that this machine lacks, such as ::1 of localhost.
  return listeners_.empty() ? last : absl::OkStatus();
}

void Acceptor::Start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Acceptor::Run() {
  std::vector<pollfd> waits = {{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& listener : listeners_) waits.push_back({listener.get(), POLLIN, 0});
  while (true) {
    poll(waits.data(), waits.size(), -1);
    if (waits[0].revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0 || AcceptFrom(waits[i].fd)) continue;
      poll(waits.data(), 1, kRetryMs);
      break;
    }
  }
}

bool Acceptor::AcceptFrom(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return true;
    warnings_.Write(
        "accept",
        absl::StrCat("clients wait, because no connection can be accepted: ", std::strerror(errno)),
        clock_.Now());
    return false;
  }
  if (const absl::Status added = open_.Add(fd.get(), clock_.Now()); !added.ok()) {
    warnings_.Write("limit", absl::StrCat("connection closed: ", std::string(added.message())),
                    clock_.Now());
    return true;
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  take_(std::move(fd));
  return true;
}

}  // namespace mccs
