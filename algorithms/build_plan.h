// Builds a plan in parts, one channel at a time: the programs of 1,000 hosts take milliseconds
// each.
//
//   Begin ──► BuildNext, once per channel ──► done ──► Take
//
// THREAD: one.
#ifndef MCCS_ALGORITHMS_BUILD_PLAN_H_
#define MCCS_ALGORITHMS_BUILD_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/plan.h"

namespace mccs {

class PlanBuild {
 public:
  // Checks the arguments; errors as of BuildPlan. LIFETIME: layout and orders outlive the build.
  static absl::StatusOr<PlanBuild> Begin(const PlanKey& key, const Layout& layout,
                                         const ChannelOrders& orders, HostIndex self);

  const PlanKey& key() const { return plan_.key; }
  bool done() const { return plan_.programs.size() == orders_->rings.size(); }
  // Builds the next channel's program. An error, as of BuildPlan, ends the build.
  // REQUIRES: !done().
  absl::Status BuildNext();
  // REQUIRES: done().
  Plan Take() { return std::move(plan_); }

  // The parts (steps, combines, places) of the program that BuildNext has built last: the time is
  // proportional to them. Before the first program: those of the checks, by hosts and ranks.
  uint64_t last_parts() const { return last_parts_; }

 private:
  PlanBuild(Plan plan, const Layout& layout, const ChannelOrders& orders, HostIndex self);

  Plan plan_;
  const Layout* layout_;
  const ChannelOrders* orders_;
  HostIndex self_;
  uint64_t last_parts_ = 0;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_BUILD_PLAN_H_
