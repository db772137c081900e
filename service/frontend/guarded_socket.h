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

// Descriptors that a tenant sent and that the daemon does not use.
//
// The tenant can delay a close without limit: closing a file of a FUSE file system asks its server,
// and a TCP socket with SO_LINGER waits for its peer. So a separate thread closes every descriptor
// that is not a memory file.
//
// OWNER: a listener and its channels together. THREAD: the owning engine only. Never blocks.
class ForeignDescriptors {
 public:
  // Maximum number of threads, each with the descriptors of one message. There are none if tenants
  // send only valid descriptors.
  static constexpr int kMaxThreads = 64;
  // Unclosed descriptors of one tenant: those of some messages. At the limit, the daemon receives
  // nothing more from the tenant.
  static constexpr size_t kMaxPerTenant = 1024;
  // Unclosed descriptors of all tenants; a fraction of the daemon's limit
  // (service/main.cc).
  static constexpr size_t kMaxTotal = 8192;

  ForeignDescriptors();
  ForeignDescriptors(const ForeignDescriptors&) = delete;
  ForeignDescriptors& operator=(const ForeignDescriptors&) = delete;

  // Closes the descriptors asynchronously. While kMaxThreads threads wait, they stay open until
  // one of these ends and CloseAsync or IsFull is called again. The exit of the daemon closes the
  // rest.
  void CloseAsync(const std::string& tenant, std::vector<UniqueFd> descriptors);

  // Whether to receive no descriptors from this tenant: it, or all tenants together, are at the
  // limit.
  bool IsFull(const std::string& tenant);
  // The same for all tenants together.
  bool IsFull();

 private:
  // Written by the engine and by the closing thread; protects no other data.
  using Count = std::atomic<size_t>;
  struct Shared;
  struct Descriptor {
    int fd;
    std::shared_ptr<Count> of_tenant;
  };
  struct CloseTask;
  static void* Close(void* task);
  void CloseOpen();
  bool CloseOnThread(std::vector<Descriptor>* descriptors);

  const std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this object
  std::vector<Descriptor> open_;
  absl::flat_hash_map<std::string, std::shared_ptr<Count>> unclosed_;  // by tenant
};

class GuardedSocket {
 public:
  // REQUIRES: `fd` is non-blocking. `tenant`: of the peer. `dma_bufs`: they are not foreign.
  GuardedSocket(UniqueFd fd, std::string tenant, bool dma_bufs,
                std::shared_ptr<ForeignDescriptors> foreign)
      : fd_(std::move(fd)),
        tenant_(std::move(tenant)),
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
  const std::string tenant_;
  const bool dma_bufs_;
  std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
