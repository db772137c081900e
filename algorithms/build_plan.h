// Builds a plan in short parts: one over 1,000 hosts takes tens of milliseconds. A part ends after
// the hop, or the slice of several blocks, with which it reaches kPartsAtOnce.
//
//   Begin ──► BuildNext, until done ──► Take
//
// THREAD: one.
#ifndef MCCS_ALGORITHMS_BUILD_PLAN_H_
#define MCCS_ALGORITHMS_BUILD_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "algorithms/program_build.h"

namespace mccs {

// The work of the checks of a plan's inputs, in the unit of PlanBuild::last_parts.
uint64_t PartsOfChecks(const Layout& layout, const ChannelOrders& orders);

class PlanBuild {
 public:
  // Checks the arguments; errors as of BuildPlan. LIFETIME: layout and orders outlive the build.
  static absl::StatusOr<PlanBuild> Begin(const PlanKey& key, const Layout& layout,
                                         const ChannelOrders& orders, HostIndex self);

  const PlanKey& key() const { return plan_.key; }
  bool done() const { return plan_.programs.size() == orders_->rings.size(); }
  // Builds the next part. REQUIRES: !done().
  void BuildNext();
  // REQUIRES: done().
  Plan Take() { return std::move(plan_); }

  // The steps, combines and places that BuildNext has built last: the time is proportional to
  // them. Before the first call: the work of the checks, by hosts and ranks.
  uint64_t last_parts() const { return last_parts_; }

 private:
  PlanBuild(Plan plan, const Layout& layout, const ChannelOrders& orders, HostIndex self);

  Plan plan_;
  const Layout* layout_;
  const ChannelOrders* orders_;
  HostIndex self_;
  std::unique_ptr<ProgramBuild> program_;  // in progress
  uint64_t last_parts_ = 0;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_BUILD_PLAN_H_
