// The plan: what one host does for one operation, as data.
//
// A plan knows no addresses, counts or scalars: it is built once for a kind of call and a layout,
// cached, and run with any of them. It runs over *hosts*: the ranks of one host are served together
// and their part is fused into each step.
//
// Memory as a plan sees it. Each buffer is a row of equal *blocks*; a channel owns the same range
// within every block; that range is cut into *rounds*. In round r a step touches, of each block
// that it names, the r-th slice of its channel's range:
//
//      block 0            block 1            …           (all-reduce: as many blocks as hosts;
//   |..ch0..|..ch1..|  |..ch0..|..ch1..|                  broadcast, reduce: one; over trees: two;
//    r0 r1 r2 r0 r1 r2  …                                 direct all-reduce: one;
//                                                         all others: one per rank)
//
// The program of a channel is run for every round. Rounds overlap; IssueOrder (issue_order.h) fixes
// in which order the steps of all rounds reach a lane, the same on both ends, so slices need no
// names but their numbers. geometry.h says where each slice lies.
//
// A lane is a channel and two hosts in order: all sends of one program to one peer go out on one
// lane, and the k-th of them in this host's IssueOrder meets the k-th receive from this host in the
// peer's.
//
// What whoever runs a plan must keep to, and all that plan_check.h assumes. n is the number of a
// slice on its lane, counted over the sends to (and alike the receives from) one peer of one
// program in IssueOrder.
//  - A step starts when all steps in its `after` are done, in any order else; but the sends of a
//    program to one peer are posted in IssueOrder. A step may be held back for older ones in
//    IssueOrder, never for younger ones, and a round for the rounds of older groups
//    (issue_order.h): so a window of one group of rounds is enough, and two keep the lanes busy.
//  - A combine is done when every destination is written; a receive, when its payload is where
//    `pieces` says; a send, when the peer has acknowledged it: its sources are free then. A send
//    from kStaged may count as done once posted, as its slot is guarded by its number.
//  - A send may be posted while fewer than `slots` slices of its lane are not released by the peer.
//  - Receive slot n mod `slots` is released when the receive and all that read it are done.
//  - Staging slot n mod `slots` may be written once send n − slots is acknowledged.
//  - A receive into kOutput may write there from its start on; what comes earlier waits in the slot
//    and is copied. So start receives early: as soon as slice n − slots is released.
//  - A copy of a place onto itself (in place; one source, neither scale nor finish) is left out.
//  - A slice without elements is sent all the same. Pieces lie one behind the other in a slot.
//  - The operation is done on this host when all steps of all rounds are.
// Buffers that are overwritten in place need no waiting for acknowledgements: where a ring plan
// writes what a send has read, the new bytes come out of those that the send delivered, so the wire
// itself orders the two. The checker proves it. A plan for which that is not so names the send in
// `after`.
#ifndef MCCS_ALGORITHMS_PLAN_H_
#define MCCS_ALGORITHMS_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/algorithm.h"
#include "base/ids.h"
#include "proto/operation.h"

namespace mccs {

// Pieces of one slice at most, as lanes take them.
inline constexpr int kMaxPieces = 128;
// Ranks of one host at most: pieces of a slice and sources of a combine stay below what lanes and
// devices take.
inline constexpr int kMaxLocalRanks = kMaxPieces;
// Hosts at most: positions of steps, up to six per host of a ring, stay below 2^16.
inline constexpr int kMaxHosts = 4096;

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

// The order of hosts around each channel's ring, which trees stand on too: a permutation of all
// HostIndex.
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

// Accumulates `sources` in their order into every destination. One source is a copy. All places are
// of one length. A destination may be one of the sources (in place), exactly.
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
  // kSend: kInput and kOutput, or all kStaged of this very step. kReceive: all kOutput, or all
  // kReceived of this very step. At least one, in payload order.
  std::vector<Place> pieces;
  // kSend: where to; kReceive: where from. Another host.
  HostIndex peer{};
  // Steps of the same round that must be done first: smaller positions in the program.
  std::vector<uint16_t> after;
  // Hops that the data has behind it; never falls from step to step (IssueOrder).
  uint16_t stage = 0;
};

// What a host does on one channel.
struct Program {
  ChannelId channel;
  std::vector<Step> steps;
};

// What tells one plan from another, besides the strategy.
struct PlanKey {
  OpKind kind = OpKind::kNone;
  Algorithm algorithm = Algorithm::kRing;  // one that serves the kind over so many hosts
  Rank root{};                             // rooted kinds; else 0
  // Reducing kinds: each kInput that a combine reads is multiplied by its rank's scale. No input is
  // ever sent as it is then.
  bool scaled = false;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    return H::combine(std::move(h), key.kind, key.algorithm, key.root, key.scaled);
  }
};

// All members but `programs` are the same on every host of the communicator.
struct Plan {
  PlanKey key;
  int32_t blocks = 1;
  // Whether the call's count is that of the whole buffer, to be cut into blocks, or of one block.
  bool count_spans_blocks = false;
  // False: the buffer holds just one block's worth, the one of its own rank.
  bool input_blocked = false;
  bool output_blocked = false;
  // True if any host sends: a slice must fit a slot.
  bool crosses_hosts = false;
  // Pieces in one slice at most: a piece takes at most slot_bytes / this.
  int32_t max_pieces = 1;
  std::vector<Program> programs;  // one per channel, in order
};

// Builds the plan of `self`: around rings of hosts (ring.h), over two trees of them (tree.h), or
// straight from host to host (direct_all_reduce.h, direct_exchange.h). One host: no lanes, local
// combines only.
// kInvalidArgument: a kind without a plan, an algorithm that does not serve it over so many hosts,
// a root out of range, a scale for a kind that reduces nothing, a layout or rings that break the
// rules of Layout and ChannelOrders, `self` out of range, an exchange of so many ranks that its
// steps cannot be numbered.
absl::StatusOr<Plan> BuildPlan(const PlanKey& key, const Layout& layout,
                               const ChannelOrders& orders, HostIndex self);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_H_
