// Bounds of the size of a plan before it is built, for any of its hosts: so all hosts reject the
// same plans and choose the same algorithms. A plan's size depends on the layout, which a tenant
// may choose.
//
// Sizes are in *parts*: steps, combines and places. A part takes up to 25 ns to build and free.
#ifndef MCCS_ALGORITHMS_PLAN_SIZE_H_
#define MCCS_ALGORITHMS_PLAN_SIZE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "algorithms/plan.h"

namespace mccs {

// Of one plan. An all-to-all over 4,096 hosts of 8 ranks on two channels has 7 million.
inline constexpr uint64_t kMaxPlanParts = 10 << 20;

// That are built at once, with those of a hop for one peer at most in addition: about 0.1 ms.
inline constexpr uint64_t kPartsAtOnce = 4096;

struct LayoutSize {
  int hosts = 0;
  int ranks = 0;
  int max_local_ranks = 0;  // of a host
};
LayoutSize SizeOf(const Layout& layout);

// Estimate of the memory of a plan that was built.
uint64_t MemoryBytes(const Plan& plan);

// Upper bound of the parts of the plan on any host.
uint64_t MostParts(const PlanKey& key, const LayoutSize& size, size_t channels);

// Whether the plan has at most kMaxPlanParts parts, and no more steps than can be numbered.
bool IsPlanOfLegalSize(const PlanKey& key, const LayoutSize& size, size_t channels);
// kResourceExhausted: it has not.
absl::Status CheckPlanSize(const PlanKey& key, const LayoutSize& size, size_t channels);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_SIZE_H_
