// Static checks of each plan.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_SHAPE_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_SHAPE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "algorithms/plan.h"

namespace mccs::check {

// "host 1, channel 0, step 5 (send)"; with the round, if given.
std::string Where(int host, ChannelId channel, uint16_t step, StepKind kind);
std::string Where(int host, ChannelId channel, uint64_t round, uint16_t step, StepKind kind);

// Checks that all hosts agree on everything except their programs; every place exists and is
// allowed in its step; every step comes after those in its `after`; stages never decrease; peers
// are other hosts.
// REQUIRES: as many plans as hosts, at least one.
absl::Status CheckShape(std::span<const Plan> plans, const Layout& layout);

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_SHAPE_H_
