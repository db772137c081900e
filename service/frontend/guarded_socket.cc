#include "service/frontend/guarded_socket.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/blocked_signals.h"
#include "service/device/gpu/gpu_importer.h"
#include "service/device/mapped_memory.h"

namespace mccs {

struct ForeignDescriptors::Shared {
  std::atomic<int> running{0};
  Count unclosed{0};
};

// The task of one closing thread.
struct ForeignDescriptors::CloseTask {
  std::shared_ptr<Shared> shared;
  std::shared_ptr<TenantCounts> tenant;
  std::vector<Descriptor> descriptors;
};

ForeignDescriptors::ForeignDescriptors() : shared_(std::make_shared<Shared>()) {}

void ForeignDescriptors::CloseAsync(const Sender& sender, std::vector<UniqueFd> descriptors) {
  absl::erase_if(tenants_, [](const auto& entry) {
    const TenantCounts& counts = *entry.second.counts;
    return counts.unclosed.load() == 0 && counts.threads.load() == 0;
  });
  absl::erase_if(listeners_, [](const auto& entry) { return entry.second->load() == 0; });
  Tenant& tenant = tenants_[sender.tenant];
  std::shared_ptr<Count>& of_listener = listeners_[sender.listener];
  if (of_listener == nullptr) of_listener = std::make_shared<Count>(0);
  for (UniqueFd& fd : descriptors) {
    if (!fd.valid()) continue;
    tenant.open.push_back({fd.Release(), of_listener});
    tenant.counts->unclosed.fetch_add(1);
    of_listener->fetch_add(1);
    shared_->unclosed.fetch_add(1);
  }
  CloseOpen();
}

size_t ForeignDescriptors::Free() const {
  return kMaxTotal - std::min(kMaxTotal, shared_->unclosed.load());
}

bool ForeignDescriptors::IsFull(const std::string& tenant) {
  if (shared_->unclosed.load() < kMaxPerTenant) return false;  // Usually.
  CloseOpen();
  return OfTenant(tenant) >= std::min(kMaxPerTenant, Free());
}

bool ForeignDescriptors::IsListenerFull(const std::string& listener) {
  if (shared_->unclosed.load() < kMaxPerTenant) return false;  // Usually.
  CloseOpen();
  return OfListener(listener) >= Free();
}

size_t ForeignDescriptors::OfTenant(const std::string& tenant) const {
  const auto own = tenants_.find(tenant);
  return own != tenants_.end() ? own->second.counts->unclosed.load() : 0;
}

size_t ForeignDescriptors::OfListener(const std::string& listener) const {
  const auto own = listeners_.find(listener);
  return own != listeners_.end() ? own->second->load() : 0;
}

void ForeignDescriptors::CloseOpen() {
  for (auto& [name, tenant] : tenants_) {
    if (tenant.open.empty() || tenant.counts->threads.load() >= kMaxThreadsPerTenant) continue;
    if (shared_->running.load() >= kMaxThreads || !CloseOnThread(&tenant)) return;
  }
}

void* ForeignDescriptors::Close(void* task) {
  const std::unique_ptr<CloseTask> own(static_cast<CloseTask*>(task));
  for (const Descriptor& descriptor : own->descriptors) {
    close(descriptor.fd);
    descriptor.of_listener->fetch_sub(1);
    own->tenant->unclosed.fetch_sub(1);
    own->shared->unclosed.fetch_sub(1);
  }
  own->tenant->threads.fetch_sub(1);
  own->shared->running.fetch_sub(1);
  return nullptr;
}

// Returns false, without taking the descriptors, if no thread can be created.
bool ForeignDescriptors::CloseOnThread(Tenant* tenant) {
  auto task = std::make_unique<CloseTask>(
      CloseTask{.shared = shared_, .tenant = tenant->counts, .descriptors = {}});
  task->descriptors.swap(tenant->open);
  tenant->counts->threads.fetch_add(1);
  shared_->running.fetch_add(1);
  // Only the daemon's main thread handles signals.
  const BlockedSignals blocked;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &Close, task.get()) == 0) {
    (void)task.release();  // owned by the thread
    pthread_detach(thread);
    return true;
  }
  shared_->running.fetch_sub(1);
  tenant->counts->threads.fetch_sub(1);
  task->descriptors.swap(tenant->open);
  return false;
}

namespace {

// Per message, as in the kernel (SCM_MAX_FD). With less room the kernel would close the rest.
constexpr size_t kMaxDescriptorsPerMessage = 253;
// Messages in a closed socket. A socket's buffer contains some hundreds of the smallest.
constexpr int kMaxUnreadMessages = 4096;

// Peeks at the next message without room for control data; returns true if it has any.
bool PeekIsTruncated(int fd) {
  std::byte first;
  iovec piece{&first, 1};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  return recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT) >= 0 && (header.msg_flags & MSG_CTRUNC) != 0;
}

absl::Status ClosedByProcess() { return absl::UnavailableError("the process closed its socket"); }

}  // namespace

GuardedSocket::~GuardedSocket() {
  if (!fd_.valid()) return;
  shutdown(fd_.get(), SHUT_RDWR);  // no further messages arrive
  TenantMessage unread;
  for (int i = 0; i < kMaxUnreadMessages; ++i) {
    if (foreign_->IsFull(sender_.tenant) && DescriptorsAreNext()) break;
    std::vector<UniqueFd> fds;
    const ssize_t got = Take(&unread, &fds);
    if (!fds.empty()) foreign_->CloseAsync(sender_, std::move(fds));
    if (got < 0 || (got == 0 && !MessageIsNext())) return;
  }
  // The descriptor of the socket itself, with all that it contains.
  std::vector<UniqueFd> itself;
  itself.push_back(std::move(fd_));
  foreign_->CloseAsync(sender_, std::move(itself));
}

// A peek without room for descriptors installs none, and reports that there were some.
bool GuardedSocket::DescriptorsAreNext() { return PeekIsTruncated(fd_.get()); }

// An empty message reads like the end of the stream. But with SO_PASSCRED a message has its
// sender's credentials, and the end has none.
bool GuardedSocket::MessageIsNext() {
  const auto ask = [this](int on) {
    return setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0;
  };
  const bool is_next = ask(1) && PeekIsTruncated(fd_.get());
  ask(0);
  return is_next;
}

ssize_t GuardedSocket::Take(TenantMessage* message, std::vector<UniqueFd>* fds) {
  iovec piece{message->bytes.data(), message->bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptorsPerMessage)];
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds->emplace_back(fd);
    }
  }
  return got;
}

absl::StatusOr<bool> GuardedSocket::Receive(TenantMessage* message) {
  if (foreign_->IsFull(sender_.tenant) && DescriptorsAreNext()) {
    return absl::ResourceExhaustedError(
        "cannot receive descriptors: too many descriptors of this tenant cannot be closed (sockets "
        "with SO_LINGER, files on FUSE); end the processes that block the close");
  }
  std::vector<UniqueFd> fds;
  ssize_t got = Take(message, &fds);
  // The process ended with unread messages of the daemon. The system reports it once, before the
  // process's own last messages.
  if (got < 0 && errno == ECONNRESET) got = Take(message, &fds);
  if (got < 0 && errno == EAGAIN) return false;
  const bool known =
      got > 0 && fds.size() <= message->fds.size() &&
      std::all_of(fds.begin(), fds.end(), [this](const UniqueFd& fd) {
        return IsMemoryFile(fd.get()) || IsGpuFile(fd.get()) || (dma_bufs_ && IsDmaBuf(fd.get()));
      });
  if (!known) {
    foreign_->CloseAsync(sender_, std::move(fds));
    if (got <= 0) return ClosedByProcess();
    return absl::InvalidArgumentError(
        "the process sent descriptors that are not memory files (memfd_create without huge "
        "pages), files of NVIDIA's driver or dma-bufs, or too many in one message; use the "
        "libnccl.so.2 of this MCCS release");
  }
  std::move(fds.begin(), fds.end(), message->fds.begin());
  message->size = static_cast<size_t>(got);
  return true;
}

absl::Status GuardedSocket::Send(std::span<const std::byte> message, std::span<const int> fds) {
  iovec piece{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::kMaxReplyFds)] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  if (sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return absl::OkStatus();
  if (errno == EAGAIN) {
    return absl::ResourceExhaustedError("the process does not read the replies to its requests");
  }
  if (errno == EPIPE || errno == ECONNRESET) {
    return ClosedByProcess();
  }
  return absl::ErrnoToStatus(errno, "sendmsg to the tenant");
}

}  // namespace mccs
