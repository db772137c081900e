// All tenant processes of a daemon: lets them in, gives them their turns, forgets them.
//
// OWNER: the daemon. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_FRONTEND_H_
#define MCCS_SERVICE_FRONTEND_FRONTEND_H_

#include <memory>
#include <vector>

#include "service/frontend/session.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

inline constexpr size_t kMaxSessions = 4096;

class Frontend {
 public:
  // LIFETIME: `environment` outlives the frontend.
  explicit Frontend(const SessionEnvironment& environment) : env_(environment) {}

  // One more socket on which tenants may come.
  void AddDoor(std::unique_ptr<TenantDoor> door) { doors_.push_back(std::move(door)); }

  // True when anything moved.
  bool Poll();

  // From now on shims ring their doorbells. True if there is work after all.
  bool PrepareSleep();
  void EndSleep();

  size_t sessions() const { return sessions_.size(); }

 private:
  bool AcceptNew();

  const SessionEnvironment& env_;
  std::vector<std::unique_ptr<TenantDoor>> doors_;
  std::vector<std::unique_ptr<Session>> sessions_;
  uint64_t last_id_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FRONTEND_H_
