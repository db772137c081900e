// The plan: the work of one host for one operation, as data.
//
// A plan contains no addresses, counts or scalars: it is built once for a kind of call and a
// layout, cached, and run with any of them. Its unit is the *host*: the ranks of one host are
// handled together, and their part is fused into each step.
//
// Memory in a plan: each buffer is a row of equal *blocks*; a channel owns the same range within
// every block; that range is divided into *rounds*. In round r a step accesses, of each block that
// it names, the r-th slice of its channel's range:
//
// clang-format off
//      block 0            block 1            …           (all-reduce: as many blocks as hosts;
//   |..ch0..|..ch1..|  |..ch0..|..ch1..|                  broadcast, reduce: one; over trees: two;
//    r0 r1 r2 r0 r1 r2  …                                 direct all-reduce: one;
//                                                         all others: one per rank)
// clang-format on
//
// The program of a channel is run for every round. Rounds overlap; IssueOrder (issue_order.h) fixes
// the order in which the steps of all rounds reach a lane. It is the same on both ends, so slices
// are identified by their numbers alone. geometry.h computes the position of each slice.
//
// Every slice is contiguous at both ends of its lane: in one buffer, or in a slot. If two hosts
// have several blocks for each other, a step lists a piece for each of them, and the rounds iterate
// over the lists: they are divided into *parts*, and a round takes one part or several.
//
//   straight   a slice is one part, from buffer to buffer: for blocks that fill a slice
//   packed     a slice is as many parts as are worth sending, packed in a staging slot, and copied
//              from the receive slot to their places: for small blocks, whose slices would cost
//              more than the copies. Successive blocks of one buffer need neither slot.
//
// A lane is a channel and an ordered pair of hosts: all sends of one program to one peer use one
// lane, and the k-th of them in this host's IssueOrder matches the k-th receive from this host in
// the peer's.
//
// Rules for an executor of plans; plan_check.h assumes no others. n is the number of a slice on its
// lane, counted over the sends to (and likewise the receives from) one peer of one program in
// IssueOrder.
//  - A step starts when all steps in its `after` are done, otherwise in any order; but the sends of
//    a program to one peer are posted in IssueOrder. A step may wait for older ones in IssueOrder,
//    never for younger ones, and a round for the rounds of older groups (issue_order.h). So a
//    window of one group of rounds is sufficient, and two keep the lanes busy.
//  - A combine is done when every destination is written; a receive, when its payload is in
//    `pieces`; a send, when the peer has acknowledged it: then its sources are free. A send from
//    kStaged may count as done once posted, as its number protects its slot.
//  - A send may be posted while the peer has fewer than `slots` unreleased slices of its lane.
//  - Receive slot n mod `slots` is released when the receive and all that read it are done.
//  - Staging slot n mod s of s may be written once send n − s is acknowledged. There may be fewer
//    staging slots than receive slots, but at least one.
//  - A receive into kOutput may write there from its start on. A slice that arrives earlier stays
//    in the slot and is copied; or a slice may wait at its sender until its receive starts. So
//    start receives early: as soon as slice n − slots is released.
//  - A copy of a place onto itself (in place; one source, neither scale nor finish) is omitted.
//  - A slice without elements is sent too. Pieces are contiguous in a slot.
//  - In a list of n places or combines, part p of Plan::parts has the entries from p⌈n/parts⌉ on,
//    ⌈n/parts⌉ of them or as many as are left (PartEntries).
//  - The operation is done on this host when all steps of all rounds are.
// Buffers that are overwritten in place need not wait for acknowledgements: if a ring plan writes
// what a send has read, the new bytes depend on those that the send delivered, so the wire itself
// orders the two. The checker proves it. A plan without this property names the send in `after`.
#ifndef MCCS_ALGORITHMS_PLAN_H_
#define MCCS_ALGORITHMS_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm.h"
#include "algorithms/division.h"
#include "base/ids.h"
#include "proto/operation.h"

namespace mccs {

// Maximum number of pieces that are packed in one slice: bounds the work of one step.
inline constexpr int kMaxPieces = 128;
// Maximum number of ranks of one host: sources of a combine stay below the limit of devices.
inline constexpr int kMaxLocalRanks = 128;
// Maximum number of hosts: positions of steps, up to six per host of a ring, stay below 2^16.
inline constexpr int kMaxHosts = 4096;

// The ranks of each host. hosts[HostIndex] lists its ranks in ascending order; LocalIndex is the
// position in that list. Every rank 0 … ranks−1 is in exactly one list; no list is empty.
struct Layout {
  std::vector<std::vector<Rank>> hosts;

  int host_count() const { return static_cast<int>(hosts.size()); }
  int rank_count() const;
  // The largest number of ranks on one host.
  int max_local_ranks() const;
};

// The order of hosts on each channel's ring, which trees use too: a permutation of all HostIndex.
struct ChannelOrders {
  std::vector<std::vector<HostIndex>> rings;
  // homes[c][h]: the home rank of channel c on host h. Slices that are sent on or copied to other
  // local ranks land in its output, so that they leave and enter the host at its GPU. Each host
  // chooses for itself: the plans of the others do not depend on it. An empty list: DefaultHome.
  std::vector<std::vector<LocalIndex>> homes = {};
};
// The channels of a host take turns of its ranks. REQUIRES: local_ranks > 0.
constexpr LocalIndex DefaultHome(ChannelId channel, int local_ranks) {
  return LocalIndex(channel.value() % local_ranks);
}

// Location of a piece of memory within one round.
enum class Space : uint8_t {
  kInput,     // index: LocalIndex of the rank whose send buffer it is
  kOutput,    // index: LocalIndex of the rank whose receive buffer it is
  kReceived,  // index: the receive step; `piece` of its slot
  kStaged,    // index: the send step; `piece` of its staging slot
};

struct Place {
  Space space = Space::kInput;
  uint16_t index = 0;
  uint16_t piece = 0;  // kReceived, kStaged: piece of the slot
  int32_t block = 0;   // determines the length, and in a blocked buffer the position
  friend bool operator==(const Place&, const Place&) = default;
};

// Most combines are copies of one place to one other: these are not allocated.
using PlaceList = absl::InlinedVector<Place, 1>;

// Accumulates `sources` in their order into every destination. One source is a copy. All places
// have the same length. A destination may be exactly one of the sources (in place).
struct Combine {
  PlaceList sources;
  PlaceList destinations;
  // The result is final for a rank or about to be distributed: applies the operator's last part (an
  // integer average's division).
  bool finish = false;
};

enum class StepKind : uint8_t { kCombine, kSend, kReceive };

struct Step {
  StepKind kind = StepKind::kCombine;
  std::vector<Combine> combines;  // kCombine: independent of each other
  // kSend: kInput and kOutput, or all kStaged of this step. kReceive: all kOutput, or all kReceived
  // of this step. At least one, in payload order. Those of one slice are contiguous.
  std::vector<Place> pieces;
  // kSend: destination; kReceive: source. Another host.
  HostIndex peer{};
  // Steps of the same round that must be done first: smaller positions in the program.
  std::vector<uint16_t> after;
  // Order of issue (IssueOrder); never decreases from step to step. Where the order follows the
  // data, the number of hops that it has made.
  uint16_t stage = 0;
};

// A host's work on one channel.
struct Program {
  ChannelId channel;
  LocalIndex home{};  // the home rank of the channel on this host (ChannelOrders)
  std::vector<Step> steps;
  // Maximum length of a chain of slices of one round each of which waits for the one before, on any
  // host, if no slice waits for a slot. For the cost model.
  int hops = 0;
  // Its steps, combines and places (plan_size.h).
  uint64_t parts = 0;
};

// Identifies a plan, together with the strategy.
struct PlanKey {
  OpKind kind = OpKind::kNone;
  Algorithm algorithm = Algorithm::kRing;  // must support the kind over this number of hosts
  Rank root{};                             // rooted kinds; else 0
  // Reducing kinds: each kInput that a combine reads is multiplied by its rank's scale. Then no
  // input is sent unscaled.
  bool scaled = false;
  // A slice may have several parts. Without effect on plans of one part (Plan::parts).
  bool packed = false;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PlanKey& key) {
    return H::combine(std::move(h), key.kind, key.algorithm, key.root, key.scaled, key.packed);
  }
};

// All members but `programs` are the same on every host of the communicator.
struct Plan {
  PlanKey key;
  int32_t blocks = 1;
  // Whether the call's count is that of the whole buffer, to be divided into blocks, or of one
  // block.
  bool count_spans_blocks = false;
  // False: the buffer contains only one block, that of its own rank.
  bool input_blocked = false;
  bool output_blocked = false;
  // True if any host sends: a slice must fit a slot.
  bool crosses_hosts = false;
  // Maximum number of pieces of one part in a slice: a piece has at most slot_bytes / this.
  int32_t max_pieces = 1;
  // Number of parts of the steps' lists. Above 1 only if all blocks have the same length. A piece
  // of a slot and the combines that name it are in the same part.
  int32_t parts = 1;
  std::vector<Program> programs;  // one per channel, in order
};

inline uint64_t PartsOf(const Plan& plan) {
  uint64_t parts = 0;
  for (const Program& program : plan.programs) parts += program.parts;
  return parts;
}

// Whether a slice may have several parts. Then all rounds are on the first channel.
inline bool PacksParts(const Plan& plan) { return plan.key.packed && plan.parts > 1; }

// Builds the plan of `self`: on rings of hosts (ring.h), on two trees of them (tree.h), directly
// from host to host (direct.h), on a tree per host (pat.h), or on a grid of them (grid.h). One
// host: no lanes, only local combines.
// kInvalidArgument: a kind without a plan, an algorithm that does not support it over this number
// of hosts, a root out of range, a scale for a kind that does not reduce, a layout, rings or
// homes that violate Layout or ChannelOrders, `self` out of range. kResourceExhausted:
// CheckPlanSize.
absl::StatusOr<Plan> BuildPlan(const PlanKey& key, const Layout& layout,
                               const ChannelOrders& orders, HostIndex self);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_H_
