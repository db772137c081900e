// The daemon's end of a tenant's Unix socket. The tenant controls its contents, including
// descriptors, so neither receiving nor closing may block the engine.
//
// OWNER: a channel. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
#define MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "service/frontend/foreign_descriptors.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

class GuardedSocket {
 public:
  // REQUIRES: `fd` is non-blocking. `tenant`: of the peer.
  GuardedSocket(UniqueFd fd, std::string tenant, std::shared_ptr<ForeignDescriptors> foreign)
      : fd_(std::move(fd)), tenant_(std::move(tenant)), foreign_(std::move(foreign)) {}
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
  std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
