// The daemon's end of a tenant's Unix socket. The tenant controls its contents, including
// descriptors, so neither receiving nor closing may block the engine.
//
// OWNER: a channel. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
#define MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

// Descriptors that tenants sent and that the daemon does not use.
//
// The tenant can delay a close without limit: closing a file of a FUSE file system asks its server,
// and a TCP socket with SO_LINGER waits for its peer. So separate threads close all descriptors
// that are not memory files; each thread has those of one tenant.
//
// All sockets of the daemon share the limits, so a tenant with several sockets gets no more than
// others. A tenant, and a listener, holds at most what it leaves free
// (docs/decisions/0024-foreign-descriptors.md).
//
// OWNER: the daemon's listeners and their channels together. THREAD: the owning engine only. Never
// blocks.
class ForeignDescriptors {
 public:
  // Maximum numbers of threads. There are none if tenants send only valid descriptors.
  static constexpr int kMaxThreads = 64;
  static constexpr int kMaxThreadsPerTenant = 16;
  // Unclosed descriptors of one tenant: those of some messages. At the limit, the daemon receives
  // nothing more from the tenant.
  static constexpr size_t kMaxPerTenant = 1024;
  // Unclosed descriptors of all tenants; subtracted from the daemon's limit
  // (service/process_limits.cc).
  static constexpr size_t kMaxTotal = 8192;

  // The process that sent a descriptor.
  struct Sender {
    std::string tenant;    // for which the process counts
    std::string listener;  // path of the socket to which it connected
  };

  ForeignDescriptors();
  ForeignDescriptors(const ForeignDescriptors&) = delete;
  ForeignDescriptors& operator=(const ForeignDescriptors&) = delete;

  // Closes the descriptors asynchronously. While the limit of threads is reached, they stay open
  // until a thread ends and CloseAsync or one of the functions below is called again. The exit of
  // the daemon closes the rest.
  void CloseAsync(const Sender& sender, std::vector<UniqueFd> descriptors);

  // Whether to receive no descriptors from this tenant.
  bool IsFull(const std::string& tenant);
  // Whether to accept no connections: a new process may already have sent descriptors.
  bool IsListenerFull(const std::string& listener);

  // Unclosed ones.
  size_t OfTenant(const std::string& tenant) const;
  size_t OfListener(const std::string& listener) const;

 private:
  // Written by the engine and by the closing threads; protects no other data.
  using Count = std::atomic<size_t>;
  struct Shared;
  struct TenantCounts {
    Count unclosed{0};
    std::atomic<int> threads{0};  // likewise
  };
  struct Descriptor {
    int fd;
    std::shared_ptr<Count> of_listener;
  };
  struct Tenant {
    std::shared_ptr<TenantCounts> counts = std::make_shared<TenantCounts>();
    std::vector<Descriptor> open;  // that no thread closes yet
  };
  struct CloseTask;
  static void* Close(void* task);
  // Descriptors that may still be added.
  size_t Free() const;
  void CloseOpen();
  bool CloseOnThread(Tenant* tenant);

  const std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this object
  absl::flat_hash_map<std::string, Tenant> tenants_;
  absl::flat_hash_map<std::string, std::shared_ptr<Count>> listeners_;  // unclosed ones, by path
};

class GuardedSocket {
 public:
  // REQUIRES: `fd` is non-blocking. `sender`: the peer. `dma_bufs`: they are not foreign.
  GuardedSocket(UniqueFd fd, ForeignDescriptors::Sender sender, bool dma_bufs,
                std::shared_ptr<ForeignDescriptors> foreign)
      : fd_(std::move(fd)),
        sender_(std::move(sender)),
        dma_bufs_(dma_bufs),
        foreign_(std::move(foreign)) {}
  // Receives unread messages first; otherwise the kernel would close their descriptors in this
  // thread.
  ~GuardedSocket();
  GuardedSocket(GuardedSocket&&) = default;
  GuardedSocket& operator=(GuardedSocket&&) = delete;

  int fd() const { return fd_.get(); }

  // True: *message was received. False: no message. kUnavailable: the peer has closed the socket.
  // kInvalidArgument: a message with descriptors that are not memory files, or with too many.
  // kResourceExhausted: a message with descriptors from a tenant with too many unclosed ones.
  absl::StatusOr<bool> Receive(TenantMessage* message);
  // See TenantChannel::Send.
  absl::Status Send(std::span<const std::byte> message, std::span<const int> fds);

 private:
  // Like recvmsg.
  ssize_t Take(TenantMessage* message, std::vector<UniqueFd>* fds);
  // The next message has descriptors. Leaves it in the socket.
  bool DescriptorsAreNext();
  // There is a next message, possibly empty.
  bool MessageIsNext();

  UniqueFd fd_;
  const ForeignDescriptors::Sender sender_;
  const bool dma_bufs_;
  std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
