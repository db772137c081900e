// The sockets that Tenants declare: opened and closed as the controller's Tenants change, without a
// restart. A socket that cannot be opened is logged and tried again; other sockets and processes
// that are connected are not affected.
//
//   SetTenants ──► wanted ──Open──► open ──no longer wanted, or of another Tenant──► closed
//                    └──error──► failed ──kRetryNs──► Open
//
// Processes keep their connections when their socket closes.
//
// OWNER: the Daemon. THREAD: the owning engine only. Opening a socket makes some system calls on the
// directory for sockets, which must be on a local file system.
#ifndef MCCS_SERVICE_FRONTEND_DECLARED_SOCKETS_H_
#define MCCS_SERVICE_FRONTEND_DECLARED_SOCKETS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/tenant_selector.h"
#include "service/counters.h"
#include "service/frontend/frontend.h"
#include "service/frontend/tenant_channel.h"
#include "service/tenant_ledger.h"

namespace mccs {

// Opens sockets in the directory that this host allows for them.
class SocketDirectory {
 public:
  virtual ~SocketDirectory() = default;
  // Processes at the socket belong to `tenant`. The text of an error names the path, what was
  // needed and the remedy.
  virtual absl::StatusOr<std::unique_ptr<TenantListener>> Open(const std::string& tenant,
                                                               const DeclaredSocket& socket) = 0;
};

class DeclaredSockets {
 public:
  static constexpr int64_t kRetryNs = 5 * kNsPerSec;
  // Of all Tenants. Each has a descriptor and costs some nanoseconds per turn.
  static constexpr size_t kMaxSockets = 1024;

  // `directory` null: this host allows none. LIFETIME: all outlive it.
  DeclaredSockets(SocketDirectory* directory, Frontend& frontend, const Clock& clock, Log& log,
                  DaemonCounters& counters)
      : directory_(directory), frontend_(frontend), clock_(clock), log_(log), counters_(counters) {}

  // The sockets that exist from now on.
  void SetTenants(const std::vector<TenantEntry>& tenants);

  // Tries failed sockets again. Returns true if it did.
  bool Poll();
  MonotonicNs NextDeadline() const { return failed_ > 0 ? retry_at_ : kNever; }

 private:
  struct Entry {
    std::string tenant;
    DeclaredSocket socket;
    TenantListener* listener = nullptr;  // owned by the frontend; null: it is not open
    std::string error = {};              // of the last attempt
  };

  void OpenMissing();
  absl::Status Open(Entry* entry);

  SocketDirectory* const directory_;
  Frontend& frontend_;
  const Clock& clock_;
  Log& log_;
  DaemonCounters& counters_;
  std::map<std::string, Entry> entries_;  // by path
  size_t failed_ = 0;
  MonotonicNs retry_at_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_DECLARED_SOCKETS_H_
