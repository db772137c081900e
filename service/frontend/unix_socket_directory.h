// The directory of a host in which mccsd opens sockets for Tenants.
//
// mccsd creates the directory and those below it. It opens no socket in a directory that another
// user could change, or that is reached by a symbolic link: so paths stay below the directory, and
// a socket is what its Tenant says.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_UNIX_SOCKET_DIRECTORY_H_
#define MCCS_SERVICE_FRONTEND_UNIX_SOCKET_DIRECTORY_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/reactor.h"
#include "service/frontend/declared_sockets.h"
#include "service/frontend/guarded_socket.h"

namespace mccs {

class UnixSocketDirectory final : public SocketDirectory {
 public:
  // LIFETIME: `reactor` outlives it and its listeners.
  UnixSocketDirectory(std::string path, Reactor& reactor)
      : path_(std::move(path)), reactor_(reactor) {}

  // Sets what sockets from now on have, besides what their Tenants say: UnixListenerOptions.
  void SetCommonOptions(bool dma_bufs, std::function<std::string(const ProcessOrigin&)> counted_as,
                        std::shared_ptr<ForeignDescriptors> foreign) {
    dma_bufs_ = dma_bufs;
    counted_as_ = std::move(counted_as);
    foreign_ = std::move(foreign);
  }

  // kPermissionDenied: a directory that others could change. Other errors as of UnixListener::Open.
  absl::StatusOr<std::unique_ptr<TenantListener>> Open(const std::string& tenant,
                                                       const DeclaredSocket& socket) override;

 private:
  // Creates `directory`, if needed, and checks that only this user can change it.
  static absl::Status Prepare(const std::string& directory);

  const std::string path_;
  Reactor& reactor_;
  bool dma_bufs_ = false;
  std::function<std::string(const ProcessOrigin&)> counted_as_;
  std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_UNIX_SOCKET_DIRECTORY_H_
