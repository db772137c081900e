// Tenants on a Unix socket (SOCK_SEQPACKET). All processes that can open the path belong to that
// socket's tenant; on the default socket the tenant is the user of the process.
//
// A pidfd, in addition to the socket, detects the exit of the process: a forked child may keep the
// socket open.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_UNIX_LISTENER_H_
#define MCCS_SERVICE_FRONTEND_UNIX_LISTENER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/reactor.h"
#include "proto/tenant_selector.h"
#include "service/frontend/guarded_socket.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

struct UnixListenerOptions {
  std::string path;
  std::string tenant;                // empty: the default socket
  unsigned mode = 0666;              // file mode of the socket
  std::optional<uint32_t> uid = {};  // its owner; absent: this process's user
  std::optional<uint32_t> gid = {};  // absent: this process's group
  bool dma_bufs = false;             // processes may send them
  // For whom to count descriptors that processes send; empty: their `tenant`.
  std::function<std::string(const ProcessOrigin&)> counted_as = {};
  // Of all listeners of the daemon together; null: the listener has one for itself.
  std::shared_ptr<ForeignDescriptors> foreign = nullptr;
};

class UnixListener final : public TenantListener {
 public:
  // Binds the path and replaces a stale socket file of a dead daemon. kAlreadyExists: a running
  // daemon uses the socket.
  // LIFETIME: `reactor` outlives the listener and its channels.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Open(const UnixListenerOptions& options,
                                                            Reactor& reactor);
  ~UnixListener() override;

  absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() override;

 private:
  UnixListener(const UnixListenerOptions& options, Reactor& reactor, UniqueFd socket)
      : options_(options),
        reactor_(reactor),
        socket_(std::move(socket)),
        foreign_(options.foreign != nullptr ? options.foreign
                                            : std::make_shared<ForeignDescriptors>()) {}
  // Makes the channel to the process that has connected; errors as for Accept.
  absl::StatusOr<std::unique_ptr<TenantChannel>> MakeChannel(UniqueFd socket);

  const UnixListenerOptions options_;
  Reactor& reactor_;
  UniqueFd socket_;
  Readiness readiness_;
  const std::shared_ptr<ForeignDescriptors> foreign_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_UNIX_LISTENER_H_
