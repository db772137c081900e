// All tenant processes of a daemon: lets them in, gives them their turns, forgets them.
//
// OWNER: the daemon. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_FRONTEND_H_
#define MCCS_SERVICE_FRONTEND_FRONTEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/repeated_sentence.h"
#include "service/frontend/session.h"
#include "service/frontend/tenant_channel.h"

namespace mccs {

inline constexpr size_t kMaxSessions = 4096;
// Of one tenant, so that none shuts the others out alone.
inline constexpr size_t kMaxSessionsPerTenant = kMaxSessions / 2;
// Looked at, at one door in one turn: who is inside has turns, too.
inline constexpr int kNewPerTurn = 16;

// Ranks that one turn ends by their processes' calls, and as many of processes that have ended: a
// process may have thousands.
inline constexpr int kRanksEndedPerTurn = 2;

// Different troubles at the doors, about as many tenants, that the log is spared repetitions of.
inline constexpr size_t kMostTroubles = 256;

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
  // Tells of the session whose id follows `after`, and its id; nothing: there are no more.
  std::optional<uint64_t> TellNext(uint64_t after, state::Session* out) const;

 private:
  // Closing sessions take turns.
  bool EndRanks();
  bool AcceptNew();
  bool AcceptAt(TenantDoor& door);
  void LetIn(std::unique_ptr<TenantChannel> channel);
  void Say(const std::string& trouble);

  const SessionEnvironment& env_;
  std::vector<std::unique_ptr<TenantDoor>> doors_;
  std::vector<std::unique_ptr<Session>> sessions_;           // by id
  absl::flat_hash_map<std::string, size_t> by_tenant_;       // sessions; of tenants that have some
  absl::flat_hash_map<std::string, RepeatedSentence> said_;  // of the doors, by what it says
  uint64_t last_id_ = 0;
  uint64_t turns_ = 0;
  uint64_t last_ended_ = 0;  // the session that ended a rank last
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_FRONTEND_H_
