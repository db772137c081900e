// The plan: what one host does for one operation, as data.
//
// A plan knows no addresses, counts or scalars: it is built once for a kind of call and a layout,
// cached, and run with any of them. It runs over *hosts*: the ranks of one host are served together
// and their part is fused into each step.
//
// Memory as a plan sees it. Each buffer is a row of equal *blocks*; a channel owns the same range
// within every block; that range is cut into *rounds*. In round r a step touches, of each block that
// it names, the r-th slice of its channel's range:
//
//      block 0            block 1            …           (all-reduce: as many blocks as hosts;
//   |..ch0..|..ch1..|  |..ch0..|..ch1..|                  all-gather, reduce-scatter: one per rank;
//    r0 r1 r2 r0 r1 r2  …                                 broadcast: one)
//
// The program of a channel is run for every round. Rounds overlap; IssueOrder (issue_order.h) fixes
// in which order the steps of all rounds reach a lane, the same on both ends, so slices need no names
// but their numbers.
#ifndef MCCS_ALGORITHMS_PLAN_H_
#define MCCS_ALGORITHMS_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/operation.h"

namespace mccs {

// Which ranks live where. hosts[HostIndex] lists its ranks in ascending order; LocalIndex is the
// position in that list. Every rank 0 … ranks−1 stands in exactly one list; no list is empty.
struct Layout {
  std::vector<std::vector<Rank>> hosts;

  int host_count() const { return static_cast<int>(hosts.size()); }
  int rank_count() const;
  // The largest number of ranks on one host.
  int max_local_ranks() const;
  // REQUIRES: 0 ≤ rank < rank_count().
  HostIndex HostOf(Rank rank) const;
};

// The order of hosts around each channel's ring: a permutation of all HostIndex.
struct ChannelOrders {
  std::vector<std::vector<HostIndex>> rings;
};

// Where a piece of memory is, within one round.
enum class Space : uint8_t {
  kInput,     // index: LocalIndex of the rank whose send buffer it is
  kOutput,    // index: LocalIndex of the rank whose receive buffer it is
  kReceived,  // index: the receive step; `piece` of its slot
  kStaged,    // index: the send step; `piece` of its staging slot
};

struct Place {
  Space space = Space::kInput;
  uint16_t index = 0;
  uint16_t piece = 0;  // kReceived, kStaged: which piece of the slot
  int32_t block = 0;   // gives the length, and for a blocked buffer the position
  friend bool operator==(const Place&, const Place&) = default;
};

// Accumulates `sources` in their order into every destination. One source is a copy.
struct Combine {
  std::vector<Place> sources;
  std::vector<Place> destinations;
  // The result is final for a rank or about to be spread: the operator's end (an integer average's
  // division) is applied here.
  bool finish = false;
};

enum class StepKind : uint8_t { kCombine, kSend, kReceive };

struct Step {
  StepKind kind = StepKind::kCombine;
  std::vector<Combine> combines;  // kCombine: independent of each other
  // kSend: kInput, kOutput or all kStaged of this very step. kReceive: kOutput (direct, copied from the
  // slot when it came early) or all kReceived of this very step. In payload order.
  std::vector<Place> pieces;
  // Steps of the same round that must be done first, as positions in the program. A receive is done when
  // the payload is where it should be; a send is done when the peer acknowledged it; for the next
  // send or combine it counts from `after` only where a source would be overwritten.
  std::vector<uint16_t> after;
  // Hops that the data has behind it; places the step in the pipeline (IssueOrder).
  uint16_t stage = 0;
};

// What a host does on one channel: at most one lane in, one lane out.
struct Program {
  ChannelId channel;
  HostIndex next;  // where kSend goes; meaningless without sends
  HostIndex previous;
  std::vector<Step> steps;
};

// How an operator enters a plan.
struct Reduction {
  bool scaled = false;  // every kInput is multiplied by its rank's scale where it is first combined;
                        // so a scaled input is never sent as it is
};

// What tells one plan from another, besides the strategy.
struct PlanKey {
  OpKind kind = OpKind::kNone;
  Rank root;  // rooted kinds; else 0
  bool scaled = false;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    return H::combine(std::move(h), key.kind, key.root, key.scaled);
  }
};

struct Plan {
  PlanKey key;
  int32_t blocks = 1;
  bool input_blocked = false;   // false: an input holds just one block's worth (its rank's own)
  bool output_blocked = false;
  // Pieces in one slice at most: a slice of each is slot_bytes / this.
  int32_t max_pieces = 1;
  std::vector<Program> programs;  // one per channel
};

// Builds the plan of `self` with rings over hosts (source: Patarasuk and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", JPDC 2009; the ring over hosts with a fused
// local part is ours). One host: no lanes, local combines only.
// Cost per host of an all-reduce of N bytes over H hosts: 2N(H−1)/H bytes on each lane in 2(H−1) hops;
// each local input read once, each local output written once.
// kInvalidArgument: a kind without a ring plan, a root out of range, rings that are no permutations.
absl::StatusOr<Plan> BuildRingPlan(const PlanKey& key, const Layout& layout,
                                   const ChannelOrders& orders, HostIndex self);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_H_
