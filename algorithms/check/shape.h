// What can be said about each plan without running it.
#ifndef MCCS_ALGORITHMS_CHECK_SHAPE_H_
#define MCCS_ALGORITHMS_CHECK_SHAPE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "algorithms/plan.h"

namespace mccs::check {

// "host 1, channel 0, step 5 (send)"; with a round in between where there is one.
std::string Where(int host, ChannelId channel, uint16_t step, StepKind kind);
std::string Where(int host, ChannelId channel, uint64_t round, uint16_t step, StepKind kind);

// All hosts agree on everything but their programs; every place exists and may stand where it
// stands; every step comes after those that it names; stages never fall; peers are other hosts.
// REQUIRES: as many plans as hosts, at least one.
absl::Status CheckShape(std::span<const Plan> plans, const Layout& layout);

}  // namespace mccs::check

#endif  // MCCS_ALGORITHMS_CHECK_SHAPE_H_
