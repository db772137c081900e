// The control work of one turn of the Frontend, in units of some microseconds: limited for each
// tenant, over all its processes, and in total. Work beyond a limit waits for the next turn; it is
// backpressure, not an error.
//
// OWNER: the Frontend. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_TURN_BUDGET_H_
#define MCCS_SERVICE_FRONTEND_TURN_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace mccs {

// A tenant's share. A turn may exceed it by the cost of one request.
class TenantBudget {
 public:
  static constexpr int kPerTurn = 64;
  // Communicators woken by their ranks' calls: cheap, and apart from the rest, so that a process's
  // requests do not delay the calls of the tenant's other processes.
  static constexpr int kWakesPerTurn = 1024;
  // Ranks that may end for messages: each takes long, and is limited over all tenants too.
  static constexpr int kRankEndsPerTurn = 1;

  // Renews the shares once per turn; `turn`: its number, from 1 on.
  void BeginTurn(uint64_t turn) {
    if (turn_ == turn) return;
    turn_ = turn;
    left_ = kPerTurn;
    wakes_left_ = kWakesPerTurn;
    rank_ends_left_ = kRankEndsPerTurn;
  }

 private:
  friend class TurnBudget;
  uint64_t turn_ = 0;
  int left_ = 0;
  int wakes_left_ = 0;
  int rank_ends_left_ = 0;
};

// One turn of all tenants.
class TurnBudget {
 public:
  static constexpr int kInTotal = 4 * TenantBudget::kPerTurn;

  // `ranks`: how many of all tenants may end for messages in this turn.
  explicit TurnBudget(int ranks) : ranks_left_(ranks) {}

  // Chooses the tenant whose session is next. LIFETIME: until the next call.
  void ServeTenant(TenantBudget& tenant) { tenant_ = &tenant; }

  // How much the tenant may still spend; 0: its work must wait.
  int left() const { return std::max(0, std::min(tenant_->left_, left_)); }
  void Spend(int units) {
    tenant_->left_ -= units;
    left_ -= units;
  }
  // All tenants together have used the turn.
  bool exhausted() const { return left_ <= 0; }

  int wakes_left() const { return tenant_->wakes_left_; }
  void SpendWakes(int wakes) { tenant_->wakes_left_ -= wakes; }

  // Returns false if the message that ends a rank must wait.
  bool TakeRankEnd() {
    if (ranks_left_ == 0 || tenant_->rank_ends_left_ == 0) return false;
    --ranks_left_;
    --tenant_->rank_ends_left_;
    return true;
  }

 private:
  int left_ = kInTotal;
  int ranks_left_;
  TenantBudget* tenant_ = nullptr;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_TURN_BUDGET_H_
