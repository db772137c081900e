// All tenant processes of a daemon: accepts them, runs their turns, removes them.
//
// OWNER: the daemon. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_FRONTEND_H_
#define MCCS_SERVICE_FRONTEND_FRONTEND_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/limited_warnings.h"
#include "service/frontend/session.h"
#include "service/frontend/tenant_channel.h"
#include "service/frontend/turn_budget.h"

namespace mccs {

// Connections accepted per listener and turn; limited so that existing sessions get their turns.
inline constexpr int kAcceptedPerTurn = 4;

// Maximum number of ranks that one turn ends for calls of their processes, and as many for
// processes that have exited: a process may have thousands.
inline constexpr int kRanksEndedPerTurn = 2;
// Closed sessions removed per turn: each may have hundreds of unread messages in its socket. As
// many as are accepted, so that short connections do not accumulate and fill the tenant's limit.
inline constexpr int kSessionsRemovedPerTurn = kAcceptedPerTurn;

// Number of distinct messages about listeners, about one per tenant, whose repetitions are
// suppressed.
inline constexpr size_t kMaxLoggedMessages = 256;

class Frontend {
 public:
  // LIFETIME: `environment` outlives the frontend.
  explicit Frontend(const SessionEnvironment& environment) : env_(environment) {}

  // Adds a socket on which tenants may connect.
  void AddListener(std::unique_ptr<TenantListener> listener) {
    listeners_.push_back(std::move(listener));
  }

  // Removes and destroys a listener that was added. Its connected processes are not affected.
  void RemoveListener(const TenantListener* listener) {
    std::erase_if(listeners_, [&](const auto& each) { return each.get() == listener; });
  }

  // Returns true if it made progress.
  bool Poll();

  // From now on shims ring their doorbells. Returns true if there is work: do not sleep.
  bool PrepareSleep();
  void EndSleep();

  // Destroys `token` when no process's kernels have the region mapped any more.
  void Withdraw(const Region& region, const std::shared_ptr<void>& token);

  // The daemon ends: it waits for no kernel.
  void EndKernels();

  size_t sessions() const { return sessions_.size(); }
  // Where a dump of the sessions' states continues.
  struct StateCursor {
    uint64_t session = 0;    // the last one
    uint32_t next_rank = 0;  // handle of its next rank; 0: it is complete
  };
  // Writes the next part of the state: a session, with a limited number of its ranks. Returns false
  // after the last one.
  bool WriteNextState(StateCursor* cursor, state::Session* out) const;

 private:
  // The processes of one tenant.
  struct Tenant {
    size_t sessions = 0;
    TenantBudget budget;
  };
  struct Entry {
    std::unique_ptr<Session> session;
    Tenant* tenant;
  };

  // Counts the sessions that close.
  bool PollSessions(size_t* closing);
  // Ends ranks of closing sessions, in round-robin order.
  bool EndRanks();
  // Removes some closed sessions. Returns true if there were any.
  bool RemoveClosed();
  bool AcceptNew();
  bool AcceptFrom(TenantListener& listener);
  void AddSession(std::unique_ptr<TenantChannel> channel);
  void LogOnce(const std::string& tenant, const std::string& message);

  const SessionEnvironment& env_;
  std::vector<std::unique_ptr<TenantListener>> listeners_;
  std::vector<Entry> sessions_;                               // by id
  std::map<std::string, Tenant> tenants_;                     // those with sessions, by name
  absl::flat_hash_map<std::string, RepeatedMessage> logged_;  // by tenant or message
  uint64_t last_id_ = 0;
  uint64_t turns_ = 0;
  size_t first_ = 0;         // index of the session that is first in the next turn
  uint64_t last_ended_ = 0;  // id of the session that last ended a rank
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FRONTEND_H_
