#include "algorithms/plan_size.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "algorithms/grid.h"

namespace mccs {
namespace {

// As numbers that do not overflow: local² × hosts is below 2^26 × 2^12.
struct Numbers {
  uint64_t hosts;
  uint64_t ranks;
  uint64_t local;  // of the largest host
};

// The steps of a hop, with what they name in `after`: combine and send, receive and combine,
// combine.
constexpr uint64_t kPartsOfHop = 10;
// Of a block that is sent, or received: a piece, or, if it is packed, a piece and a copy.
constexpr uint64_t kStraightBlock = 1;
constexpr uint64_t kPackedBlock = 4;

uint64_t LocalCopies(const Numbers& n) { return 1 + 3 * n.local * n.local; }

// One combine of all inputs, one of all outputs, and steps with a few neighbours.
uint64_t PartsOfFewHops(const Numbers& n) { return 2 * (2 * n.local + 8 * kPartsOfHop); }

uint64_t PartsOfExchange(const PlanKey& key, const Numbers& n) {
  const uint64_t each_way = (key.kind == OpKind::kAllToAll ? n.local : 1) * n.ranks;
  const uint64_t block = key.packed ? kPackedBlock : kStraightBlock;
  return 2 * each_way * block + n.hosts * kPartsOfHop + LocalCopies(n);
}

// A block of this host is packed, or received and copied; one in transit both. Those in transit
// are from a host of the row to one of the column.
uint64_t PartsOfGrid(const LayoutSize& size, const Numbers& n) {
  const auto columns = static_cast<uint64_t>(Grid(size.hosts).columns());
  const uint64_t row = std::min(n.ranks, n.local * columns);
  const uint64_t in_transit = std::min(row * row, n.local * n.local * (n.hosts + 2 * columns));
  const uint64_t steps = MostGridSteps(size.hosts, GridShapeOf(size.hosts, size.max_local_ranks));
  return 2 * kPackedBlock * (n.local * n.ranks + in_transit) + 2 * steps + LocalCopies(n);
}

uint64_t PartsOfProgram(const PlanKey& key, const LayoutSize& size) {
  const Numbers n{.hosts = static_cast<uint64_t>(size.hosts),
                  .ranks = static_cast<uint64_t>(size.ranks),
                  .local = static_cast<uint64_t>(size.max_local_ranks)};
  if (size.hosts == 1) return LocalCopies(n) + n.local + 1;
  if (key.algorithm == Algorithm::kGrid) return PartsOfGrid(size, n);
  if (Exchanges(key.kind)) return PartsOfExchange(key, n);
  switch (key.kind) {
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
      // Each block is received, combined with all local ranks or copied to them, and sent.
      return n.ranks * (n.local + 2 * kPackedBlock + 3) + n.hosts * kPartsOfHop + LocalCopies(n);
    case OpKind::kAllReduce:
      if (key.algorithm == Algorithm::kRing) return 2 * n.hosts * (n.local + kPartsOfHop);
      if (key.algorithm == Algorithm::kDirect) return n.hosts * kPartsOfHop + PartsOfFewHops(n);
      break;
    default:
      break;
  }
  // Trees, and pipelines along a ring.
  return 2 * PartsOfFewHops(n);
}

// Whether the other channels have no steps (PacksParts).
bool UsesFirstChannelOnly(const PlanKey& key, const LayoutSize& size) {
  if (!key.packed || size.hosts == 1 || size.max_local_ranks == 1) return false;
  if (key.algorithm == Algorithm::kDirect) return Exchanges(key.kind);
  return key.algorithm == Algorithm::kRing &&
         (key.kind == OpKind::kAllGather || key.kind == OpKind::kReduceScatter);
}

}  // namespace

LayoutSize SizeOf(const Layout& layout) {
  return {.hosts = layout.host_count(),
          .ranks = layout.rank_count(),
          .max_local_ranks = layout.max_local_ranks()};
}

uint64_t MemoryBytes(const Plan& plan) {
  // Of a copy, that is a combine and two places; a sum of many places has fewer bytes per part.
  constexpr uint64_t kBytesPerPart = sizeof(Combine) / 3 + 1;
  uint64_t bytes = sizeof(Plan);
  for (const Program& program : plan.programs) {
    bytes += sizeof(Program) + program.steps.size() * sizeof(Step) + program.parts * kBytesPerPart;
  }
  return bytes;
}

uint64_t MostParts(const PlanKey& key, const LayoutSize& size, size_t channels) {
  return PartsOfProgram(key, size) * (UsesFirstChannelOnly(key, size) ? 1 : channels);
}

bool IsPlanOfLegalSize(const PlanKey& key, const LayoutSize& size, size_t channels) {
  if (MostParts(key, size, channels) > kMaxPlanParts) return false;
  return key.algorithm != Algorithm::kGrid ||
         MostGridSteps(size.hosts, GridShapeOf(size.hosts, size.max_local_ranks)) <
             std::numeric_limits<uint16_t>::max();
}

absl::Status CheckPlanSize(const PlanKey& key, const LayoutSize& size, size_t channels) {
  if (IsPlanOfLegalSize(key, size, channels)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      std::string(Name(key.kind)), " by ", std::string(Name(key.algorithm)), " with up to ",
      size.max_local_ranks, " ranks on each of ", size.hosts, " hosts, over ", channels,
      " channels: the plan would have up to ", MostParts(key, size, channels), " parts, more than ",
      kMaxPlanParts, "; use fewer ranks or channels"));
}

}  // namespace mccs
