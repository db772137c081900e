// Requests of one process that are answered when work has stopped: a CommRevoke when its
// communicator runs no operation, a DeregisterWindow when no put into its window is in progress.
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_AWAITED_STOPS_H_
#define MCCS_SERVICE_FRONTEND_AWAITED_STOPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/shim_wire.h"
#include "service/frontend/turn_budget.h"

namespace mccs {

struct AwaitedStop {
  uint64_t request = 0;
  uint32_t handle = 0;                  // `comm_handle` of the rank
  std::optional<uint64_t> window = {};  // none: the communicator
};

class AwaitedStops {
 public:
  // One for each communicator of the process, and as many windows.
  static constexpr size_t kMax = 2 * wire::kMaxCommsPerSession;
  // Of a look, in units of the budget. One at a window may go over all puts in progress.
  static constexpr int kCost = 4;

  bool empty() const { return stops_.empty(); }

  // kResourceExhausted: kMax reached.
  absl::Status Add(const AwaitedStop& stop) {
    if (stops_.size() >= kMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this process already waits for the end of work in ", stops_.size(),
                       " communicators and windows, which is the limit; wait for earlier calls"));
    }
    stops_.push_back(stop);
    return absl::OkStatus();
  }

  // Looks at each once, as far as the tenant's budget allows; the next turn goes on. Calls `answer`
  // for those that have stopped. Returns true if there were any.
  bool Poll(TurnBudget& budget, absl::FunctionRef<bool(const AwaitedStop&)> has_stopped,
            absl::FunctionRef<void(const AwaitedStop&)> answer) {
    bool moved = false;
    for (size_t i = stops_.size(); i > 0 && budget.left() > 0; --i) {
      budget.Spend(kCost);
      const AwaitedStop stop = stops_.front();
      stops_.pop_front();
      if (has_stopped(stop)) {
        answer(stop);
        moved = true;
      } else {
        stops_.push_back(stop);
      }
    }
    return moved;
  }

 private:
  std::deque<AwaitedStop> stops_;  // the next one to look at first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_AWAITED_STOPS_H_
