#include "shim/daemon/daemon_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/blocked_signals.h"
#include "base/status_macros.h"
#include "shim/daemon/error_message.h"
#include "shim/daemon/fence.h"
#include "shim/version.h"

namespace mccs::shim {
namespace {

constexpr char kHowToStart[] =
    "start it with 'systemctl start mccsd' (or 'mccs-lab up' for a cluster on one machine), or "
    "point MCCS_SOCKET at its socket";

constexpr std::chrono::milliseconds kNoTimeout{0};  // as a timeout

// `direction`: SO_RCVTIMEO or SO_SNDTIMEO.
absl::Status SetTimeout(int socket, int direction, std::chrono::milliseconds limit) {
  const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  if (setsockopt(socket, SOL_SOCKET, direction, &time, sizeof(time)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot set timeouts on the daemon's socket");
}

// Starts a thread that blocks all signals, so that they go to the program's threads.
template <typename Function>
std::thread StartThreadWithoutSignals(Function function) {
  const BlockedSignals blocked;
  std::thread thread(std::move(function));
  pthread_setname_np(thread.native_handle(), "mccs-shim");
  return thread;
}

// Sends one packet.
ssize_t SendOnce(int socket, iovec data, const MessageDescriptors& descriptors) {
  int fds[wire::kMaxMessageFds];
  size_t count = 0;
  for (const int fd : {descriptors.first, descriptors.second}) {
    if (fd >= 0) fds[count++] = fd;
  }
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds, count * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

namespace internal {

absl::Status CheckReply(const Reply& reply, wire::MessageKind kind, size_t bytes) {
  wire::MessageHeader header;
  if (reply.size >= sizeof(header)) {
    std::memcpy(&header, reply.bytes, sizeof(header));
    if (header.kind == kind && header.bytes == bytes && reply.size == bytes) {
      return absl::OkStatus();
    }
  }
  return absl::InternalError("the daemon's reply does not match the request");
}

absl::Status StatusOfReply(const wire::ReplyStatus& status) {
  if (status.error == wire::ErrorClass::kNone) return absl::OkStatus();
  return StatusOf(status.error,
                  std::string_view(status.text, strnlen(status.text, sizeof(status.text))));
}

}  // namespace internal

// ---- Beginning and end -----------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DaemonClient>> DaemonClient::Connect(
    const std::string& socket_path) {
  std::unique_ptr<DaemonClient> client(new DaemonClient(socket_path));
  MCCS_RETURN_IF_ERROR(client->Dial());
  MCCS_RETURN_IF_ERROR(client->Greet());
  client->reader_ = StartThreadWithoutSignals([self = client.get()] { self->ReadUntilDead(); });
  return client;
}

DaemonClient::~DaemonClient() {
  if (!reader_.joinable()) return;
  shutdown(socket_.get(), SHUT_RDWR);
  reader_.join();
}

absl::Status DaemonClient::Dial() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("invalid socket path ", socket_path_,
                                               ": longer than ", sizeof(address.sun_path) - 1,
                                               " characters; set MCCS_SOCKET to a shorter path"));
  }
  std::memcpy(address.sun_path, socket_path_.c_str(), socket_path_.size() + 1);
  socket_.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return absl::ErrnoToStatus(errno, "cannot create a socket for the daemon");
  MCCS_RETURN_IF_ERROR(SetTimeout(socket_.get(), SO_RCVTIMEO, kGreetingTimeout / 2));
  MCCS_RETURN_IF_ERROR(SetTimeout(socket_.get(), SO_SNDTIMEO, kGreetingTimeout / 2));
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no MCCS daemon at ", socket_path_, ": ", strerror(errno), "; ", kHowToStart));
  }
  return absl::OkStatus();
}

absl::Status DaemonClient::Greet() {
  wire::Hello hello{};
  hello.header = {wire::Hello::kKind, sizeof(hello), 0};
  hello.magic = wire::kControlMagic;
  hello.oldest_version = wire::kOldestWireVersion;
  hello.newest_version = wire::kWireVersion;
  std::strncpy(hello.build, absl::StrCat("mccs ", kMccsVersion).c_str(), sizeof(hello.build) - 1);
  const bool sent = send(socket_.get(), &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello);
  const int error = errno;
  auto reply = Receive();  // A daemon that closes has perhaps said why.
  if (!sent && !reply.ok()) {
    return absl::UnavailableError(absl::StrCat("the MCCS daemon at ", socket_path_,
                                               " closed the connection: ", strerror(error), "; ",
                                               kHowToStart));
  }
  if (!reply.ok()) {
    return absl::UnavailableError(absl::StrCat("the MCCS daemon at ", socket_path_,
                                               " did not reply (", reply.status().message(), "); ",
                                               kHowToStart));
  }
  MCCS_ASSIGN_OR_RETURN(const auto greeting, reply->As<wire::HelloReply>());
  uses_kernels_ = greeting.uses_kernels != 0;
  wants_dma_bufs_ = greeting.wants_dma_bufs != 0;
  if (!reply->fds[0].valid() || !reply->fds[1].valid()) {
    return absl::InternalError("invalid greeting of the daemon: no session region or no doorbell");
  }
  MCCS_ASSIGN_OR_RETURN(session_memory_, SharedRegion::Map(std::move(reply->fds[0])));
  if (session_memory_.bytes() < sizeof(wire::SessionRegion)) {
    return absl::InternalError("invalid greeting of the daemon: its session region is too small");
  }
  session_ = reinterpret_cast<wire::SessionRegion*>(session_memory_.data());
  doorbell_ = std::move(reply->fds[1]);
  kernel_image_ = {.file = std::move(reply->fds[2]),
                   .bytes = greeting.kernel_image_bytes,
                   .architectures = std::string(greeting.kernel_architectures,
                                                strnlen(greeting.kernel_architectures,
                                                        sizeof(greeting.kernel_architectures)))};
  MCCS_RETURN_IF_ERROR(SetTimeout(socket_.get(), SO_SNDTIMEO, kSendTimeout));
  return SetTimeout(socket_.get(), SO_RCVTIMEO, kNoTimeout);  // from now on the reader blocks on it
}

void DaemonClient::CloseInForkedChild() {
  close(socket_.get());
  close(doorbell_.get());
  if (kernel_image_.file.valid()) close(kernel_image_.file.get());
}

// ---- Requests --------------------------------------------------------------------------------

absl::StatusOr<uint64_t> DaemonClient::SendBytes(void* message, size_t bytes,
                                                 const MessageDescriptors& descriptors) {
  uint64_t request;
  {
    std::lock_guard lock(mutex_);
    if (dead()) return DeepCopy(death_status_);
    request = next_request_++;
    pending_[request];
  }
  static_cast<wire::MessageHeader*>(message)->request = request;
  if (SendWhole(message, bytes, descriptors)) return request;
  IgnoreReply(request);
  std::lock_guard lock(mutex_);
  return DeepCopy(death_status_);
}

bool DaemonClient::SendWhole(void* message, size_t bytes, const MessageDescriptors& descriptors) {
  const auto until = std::chrono::steady_clock::now() + kSendTimeout;
  ssize_t sent;
  do {
    sent = SendOnce(socket_.get(), {message, bytes}, descriptors);
  } while (sent < 0 && errno == EINTR && std::chrono::steady_clock::now() < until);
  if (sent == static_cast<ssize_t>(bytes)) return true;
  if (errno == EAGAIN || errno == EINTR) {
    MarkDead(absl::DeadlineExceededError(
        absl::StrCat("the daemon did not read its socket for ", kSendTimeout.count(), " ms")));
    // The daemon may continue later, and must see that this process did not.
    shutdown(socket_.get(), SHUT_RDWR);
  } else {
    // The reader will notice it too, but a caller that retries now must get a new connection.
    MarkDead(absl::ErrnoToStatus(errno, "send"));
  }
  return false;
}

absl::StatusOr<Reply> DaemonClient::Await(uint64_t request,
                                          std::optional<std::chrono::milliseconds> limit) {
  std::unique_lock lock(mutex_);
  // No entry: another thread polled the reply, and processes it.
  auto answered = [&] {
    const auto it = pending_.find(request);
    return it == pending_.end() || it->second.answer.has_value();
  };
  if (limit) {
    answered_.wait_for(lock, *limit, answered);
  } else {
    answered_.wait(lock, answered);
  }
  const auto it = pending_.find(request);
  if (it == pending_.end()) return absl::AbortedError("another thread took the reply");
  if (!it->second.answer) {
    it->second.ignored = true;
    return absl::DeadlineExceededError(absl::StrCat(
        "the MCCS daemon at ", socket_path_, " did not reply within ", limit->count(), " ms"));
  }
  absl::StatusOr<Reply> answer = std::move(*it->second.answer);
  pending_.erase(it);
  return answer;
}

bool DaemonClient::WaitFor(uint64_t request, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, limit, [&] {
    const auto it = pending_.find(request);
    return it == pending_.end() || it->second.answer.has_value();
  });
}

std::optional<absl::StatusOr<Reply>> DaemonClient::Poll(uint64_t request) {
  std::lock_guard lock(mutex_);
  const auto it = pending_.find(request);
  if (it == pending_.end() || !it->second.answer) return std::nullopt;
  absl::StatusOr<Reply> answer = std::move(*it->second.answer);
  pending_.erase(it);
  answered_.notify_all();
  return answer;
}

void DaemonClient::Cancel(uint64_t request, absl::Status why) {
  std::lock_guard lock(mutex_);
  const auto it = pending_.find(request);
  if (it == pending_.end() || it->second.answer) return;
  it->second.answer.emplace(std::move(why));
  answered_.notify_all();
}

void DaemonClient::IgnoreReply(uint64_t request) {
  std::lock_guard lock(mutex_);
  const auto it = pending_.find(request);
  if (it == pending_.end()) return;
  if (it->second.answer) {
    pending_.erase(it);
  } else {
    it->second.ignored = true;
  }
}

void DaemonClient::Notify(uint32_t comm_handle) {
  // seq_cst on both: they pair with the daemon's store of daemon_asleep and its second check of
  // `dirty`. One of the two sees the other.
  session_->dirty[comm_handle / 64].fetch_or(uint64_t{1} << (comm_handle % 64),
                                             std::memory_order_seq_cst);
  if (session_->daemon_asleep.load(std::memory_order_seq_cst) != 0) {
    const uint64_t one = 1;
    // A doorbell that cannot accept the write is signalled already.
    [[maybe_unused]] ssize_t written = write(doorbell_.get(), &one, sizeof(one));
  }
}

// ---- The reader ------------------------------------------------------------------------------

absl::StatusOr<Reply> DaemonClient::Receive() {
  Reply reply;
  iovec data{reply.bytes, sizeof(reply.bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kMaxReplyFds * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return absl::ErrnoToStatus(errno, "receive");
  if (received == 0) return absl::UnavailableError("the daemon closed the connection");
  reply.size = static_cast<size_t>(received);
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && i < wire::kMaxReplyFds; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      reply.fds[i].Reset(fd);
    }
  }
  return reply;
}

void DaemonClient::SetReaderCallback(ReaderCallback callback) {
  std::lock_guard lock(callback_mutex_);
  callback_ = std::move(callback);
}

void DaemonClient::RunCallbackUntilReadable() {
  while (true) {
    std::optional<std::chrono::steady_clock::time_point> next;
    {
      std::lock_guard lock(callback_mutex_);
      if (callback_) next = callback_();
    }
    int limit_ms = -1;
    if (next) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*next - std::chrono::steady_clock::now());
      constexpr int64_t kLongestMs = 60'000;
      limit_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLongestMs));
    }
    pollfd watched{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&watched, 1, limit_ms);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;  // Receive reports the error
  }
}

void DaemonClient::ReadUntilDead() {
  while (true) {
    RunCallbackUntilReadable();
    absl::StatusOr<Reply> reply = Receive();
    if (!reply.ok()) {
      MarkDead(reply.status());
      return;
    }
    Deliver(*std::move(reply));
  }
}

void DaemonClient::SetMemoryHandler(MemoryHandler handler) {
  std::lock_guard lock(callback_mutex_);
  memory_handler_ = std::move(handler);
}

void DaemonClient::Deliver(Reply reply) {
  if (reply.size < sizeof(wire::MessageHeader)) return;
  wire::MessageHeader header;
  std::memcpy(&header, reply.bytes, sizeof(header));
  if (header.kind == wire::MessageKind::kMapMemory ||
      header.kind == wire::MessageKind::kUnmapMemory ||
      header.kind == wire::MessageKind::kCopyMemory ||
      header.kind == wire::MessageKind::kDropCopy) {
    std::lock_guard lock(callback_mutex_);
    if (memory_handler_ != nullptr) memory_handler_(std::move(reply));
    return;
  }
  std::lock_guard lock(mutex_);
  const auto it = pending_.find(header.request);
  if (it == pending_.end()) return;
  if (it->second.ignored) {
    pending_.erase(it);
    return;
  }
  if (it->second.answer) return;  // cancelled
  it->second.answer.emplace(std::move(reply));
  answered_.notify_all();
}

void DaemonClient::MarkDead(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  if (dead()) return;
  death_status_ = absl::UnavailableError(
      absl::StrCat("connection to the MCCS daemon at ", socket_path_, " lost: ", why.message(),
                   "; the communicators that use it have failed"));
  dead_.store(true, std::memory_order_release);
  for (auto& [request, pending] : pending_) {
    if (!pending.answer) pending.answer.emplace(DeepCopy(death_status_));
  }
  for (wire::CommRegion* region : watched_) FailRegion(*region);
  answered_.notify_all();
}

void DaemonClient::Watch(wire::CommRegion* region) {
  std::lock_guard lock(mutex_);
  watched_.push_back(region);
  if (dead()) FailRegion(*region);
}

void DaemonClient::FailRegion(wire::CommRegion& region) const {
  const absl::string_view text = death_status_.message();
  FailLocally(region, wire::ErrorClass::kSystem, {text.data(), text.size()});
}

void DaemonClient::Unwatch(wire::CommRegion* region) {
  std::lock_guard lock(mutex_);
  std::erase(watched_, region);
}

bool DaemonClient::MayBlockStreams() {
  std::lock_guard lock(mutex_);
  return std::any_of(watched_.begin(), watched_.end(), [](const wire::CommRegion* region) {
    return region->failure.error.load(std::memory_order_acquire) != 0 &&
           region->done.value.load(std::memory_order_acquire) != wire::kFencePoison;
  });
}

}  // namespace mccs::shim
