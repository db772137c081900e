// The daemon's end of a tenant's Unix socket. A tenant decides what stands in it, descriptors
// included, and neither taking it out nor closing the socket may hold the engine up.
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
  // REQUIRES: `fd` does not block. `tenant`: whoever is at the other end.
  GuardedSocket(UniqueFd fd, std::string tenant, std::shared_ptr<ForeignDescriptors> foreign)
      : fd_(std::move(fd)), tenant_(std::move(tenant)), foreign_(std::move(foreign)) {}
  // Takes out what has come and nobody read: with its last reference the kernel would close a
  // descriptor in this thread.
  ~GuardedSocket();
  GuardedSocket(GuardedSocket&&) = default;
  GuardedSocket& operator=(GuardedSocket&&) = delete;

  int fd() const { return fd_.get(); }

  // True: *message was taken out. False: nothing is there. kUnavailable: the other end is closed.
  // kInvalidArgument: a message with descriptors that are no memory files, or with too many.
  // kResourceExhausted: one with descriptors, of a tenant that keeps too many open.
  absl::StatusOr<bool> Receive(TenantMessage* message);
  // As TenantChannel::Send.
  absl::Status Send(std::span<const std::byte> message, std::span<const int> fds);

 private:
  // As recvmsg.
  ssize_t Take(TenantMessage* message, std::vector<UniqueFd>* fds);
  // The next message has descriptors, which stay where they are.
  bool DescriptorsAreNext();
  // There is one, maybe without bytes.
  bool MessageIsNext();

  UniqueFd fd_;
  const std::string tenant_;
  std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_GUARDED_SOCKET_H_
