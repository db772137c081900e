// Proves a set of plans, one per host, for one count: all hosts together, with lanes of given
// numbers of slots, for every possible order of slices, acknowledgements and combines.
//
// How one pass covers every order: under the rules of plan.h a step waits for *all* of a fixed set
// of events (steps done, slices released, slices acknowledged), never for one of several. So the
// wait-for graph does not depend on timing. Both proofs follow from that, channel by channel
// (channels share neither lanes nor memory; that is checked first):
//
//  - Deadlock. Take the strictest executor that the rules allow: a step starts only after all older
//    ones of its program are done (sends: posted), a receive only when its slot is free, a group of
//    rounds only after the one before is done. If its graph has no cycle, it always completes.
//    Every other executor waits for a subset, so its graph has no cycle either.
//  - Races. Take the loosest executor: only the waits that the rules and the wire enforce. Two
//    accesses to the same memory, one of them a write, must be ordered by a path in its graph, from
//    the end of one to the begin of the other. This order then holds for every executor.
//
// Without races each step reads the same values in every order, so one symbolic run determines the
// results of all. The value of each slice of each block is an expression over the inputs.
//
// Cost: quadratic in the number of steps of one channel; intended for tests with few rounds. More
// rounds repeat the same pattern once two groups of rounds and all slots have been used.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CHECK_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CHECK_H_

#include <cstddef>
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
  uint32_t staging_slots = 0;  // 0: as many as `slots`
  // Steps may run one after the other, as in kernels. False: a step may also run while older ones
  // wait; the grid needs it.
  bool in_order = true;

  uint32_t staging() const { return staging_slots > 0 ? staging_slots : slots; }
};

// Maximum number of events of one channel (a step has two to four per round).
inline constexpr size_t kMaxCheckedEvents = 16384;

// OK, or the violation, with host, channel, round and step (kFailedPrecondition):
//  - every output element has every contribution of the collective exactly once, and no others;
//  - all ranks that get the same element get the same expression (order and grouping of the
//    accumulation), hence the same bits;
//  - scales are applied to each input once, `finish` once, last;
//  - no slot is overwritten before its last reader is done, no source before it has been delivered;
//  - in place: no input is overwritten before its last reader;
//  - the k-th send of each lane matches the k-th receive with the same lengths; none is unmatched;
//  - every slice fits a slot; channels and rounds cover every block exactly once;
//  - no deadlock.
// kInvalidArgument: invalid parameters (number of plans other than that of hosts, a kind without a
// contract or without an in-place form, slots < 1, slot_bytes below what Geometry requires, more
// than kMaxCheckedEvents).
absl::Status CheckPlans(std::span<const Plan> plans, const Layout& layout,
                        const CheckOptions& options);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CHECK_H_
