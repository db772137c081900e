// Proves a set of plans, one per host, for one count: runs them symbolically, all hosts together,
// with lanes of a given number of slots.
#ifndef MCCS_ALGORITHMS_PLAN_CHECK_H_
#define MCCS_ALGORITHMS_PLAN_CHECK_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "algorithms/plan.h"

namespace mccs {

struct CheckOptions {
  DataType type = DataType::kFloat32;
  uint64_t count = 0;
  uint32_t slots = 2;
  uint32_t slot_bytes = 4096;
  uint32_t skew = 1;
  bool in_place = false;
};

// OK, or what is wrong, with host, channel, round and step:
//  - every output element has every contribution that the collective asks for exactly once, and
//  nothing
//    else;
//  - all ranks that get the same element get the same expression (order and grouping of the
//    accumulation), hence the same bits;
//  - scales are applied to each input once, `finish` once, last;
//  - no slot is overwritten before its last reader is done, no source before its send is
//  acknowledged;
//  - in place: no input is overwritten before its last reader;
//  - the k-th send of each lane meets the k-th receive with the same length; nothing is left over;
//  - no deadlock under the given number of slots, whatever the order of delivery between lanes.
absl::Status CheckPlans(std::span<const Plan> plans, const Layout& layout,
                        const CheckOptions& options);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_CHECK_H_
