// Tenants on a Unix socket (SOCK_SEQPACKET). Who can open the path is that socket's tenant; on the
// common socket the tenant is the user of the process.
//
// A pidfd besides the socket tells when the process is gone: a forked child may keep the socket
// open.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_UNIX_DOOR_H_
#define MCCS_SERVICE_FRONTEND_UNIX_DOOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/reactor.h"
#include "service/frontend/guarded_socket.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

struct UnixDoorOptions {
  std::string path;
  std::string tenant;    // empty: the common socket
  unsigned mode = 0666;  // who may open it
};

class UnixDoor final : public TenantDoor {
 public:
  // Binds the path; a stale socket file of a dead daemon is replaced, that of a live one is
  // kAlreadyExists.
  // LIFETIME: `reactor` outlives the door and its channels.
  static absl::StatusOr<std::unique_ptr<UnixDoor>> Open(const UnixDoorOptions& options,
                                                        Reactor& reactor);
  ~UnixDoor() override;

  absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() override;

 private:
  UnixDoor(const UnixDoorOptions& options, Reactor& reactor, UniqueFd socket)
      : options_(options), reactor_(reactor), socket_(std::move(socket)) {}
  // The channel to the process that came; errors as Accept's.
  absl::StatusOr<std::unique_ptr<TenantChannel>> Welcome(GuardedSocket socket,
                                                         TenantIdentity identity);

  const UnixDoorOptions options_;
  Reactor& reactor_;
  UniqueFd socket_;
  Readiness readiness_;
  const std::shared_ptr<ForeignDescriptors> foreign_ = std::make_shared<ForeignDescriptors>();
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_UNIX_DOOR_H_
