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

// The peer process, from the kernel.
struct TenantIdentity {
  std::string tenant;  // the socket's, or "uid 1000"
  pid_t process = 0;
  std::string cgroup = {};  // at connect time; empty: unknown
};

using MessageFds = std::array<UniqueFd, wire::kMaxMessageFds>;

struct TenantMessage {
  alignas(8) std::array<std::byte, wire::kMaxMessageBytes> bytes;
  size_t size = 0;
  MessageFds fds;
};

class TenantChannel {
 public:
  virtual ~TenantChannel() = default;

  // Whether Receive may return something other than false. Cheap: called for every process in every
  // turn.
  virtual bool HasInput() = 0;
  // True: *message contains a message. False: none has arrived. kUnavailable: the process has
  // ended.
  virtual absl::StatusOr<bool> Receive(TenantMessage* message) = 0;
  // Sends one message. kResourceExhausted: the process does not receive the replies to its
  // requests. kUnavailable: the process has ended.
  virtual absl::Status Send(std::span<const std::byte> message, std::span<const int> fds) = 0;

  // The eventfd that the shim rings when the daemon sleeps.
  virtual int doorbell() const = 0;
  virtual const TenantIdentity& identity() const = 0;
};

// Listens for tenant processes.
class TenantListener {
 public:
  virtual ~TenantListener() = default;
  // The next process; null: none. After kNotFound (the process has exited) or kPermissionDenied (it
  // was rejected) another process may follow; after other errors none can be accepted now.
  virtual absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_TENANT_CHANNEL_H_
