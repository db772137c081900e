// The message channel to one tenant process: a Unix socket in production, a queue in the simulator.
//
// OWNER: the Session. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_TENANT_CHANNEL_H_
#define MCCS_SERVICE_FRONTEND_TENANT_CHANNEL_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"

namespace mccs {

// Who is at the other end, as the kernel says.
struct TenantIdentity {
  std::string tenant;  // the socket's, or "uid 1000"
  pid_t process = 0;
  std::string cgroup = {};  // when it came; empty: not known
};

struct TenantMessage {
  alignas(8) std::array<std::byte, wire::kMaxMessageBytes> bytes;
  size_t size = 0;
  std::array<UniqueFd, wire::kMaxMessageFds> fds;
};

class TenantChannel {
 public:
  virtual ~TenantChannel() = default;

  // True: a message is in *message. False: none has come. kUnavailable: the process is gone.
  virtual absl::StatusOr<bool> Receive(TenantMessage* message) = 0;
  // Sends one message. kResourceExhausted: the process does not read what it asked for.
  virtual absl::Status Send(std::span<const std::byte> message, std::span<const int> fds) = 0;

  // The eventfd that the shim rings when the daemon sleeps.
  virtual int doorbell() const = 0;
  virtual const TenantIdentity& identity() const = 0;
};

// Where tenants knock.
class TenantDoor {
 public:
  virtual ~TenantDoor() = default;
  // The next process that came; null when none has. Behind one that has ended already (kNotFound)
  // or was turned away (kPermissionDenied) the next may wait; another error: nobody can come now.
  virtual absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_TENANT_CHANNEL_H_
