#include "algorithms/direct.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "algorithms/plan_builder.h"

namespace mccs {
namespace {

// One block's source, in a rank's input, and destination, in a rank's output.
struct Move {
  Place from, to;
};

// Positions of the ranks of `key` among `ranks`: the root's only, or all.
std::vector<uint16_t> Participants(const std::vector<Rank>& ranks, bool root_only, Rank root) {
  std::vector<uint16_t> positions;
  for (uint16_t i = 0; i < ranks.size(); ++i) {
    if (!root_only || ranks[i] == root) positions.push_back(i);
  }
  return positions;
}

// All blocks from the ranks of one host to those of another (or its own), in an order common to
// both: by sender, then by receiver.
std::vector<Move> BlockMoves(const PlanKey& key, const std::vector<Rank>& from,
                             const std::vector<Rank>& to) {
  std::vector<Move> moves;
  const std::vector<uint16_t> takers = Participants(to, key.kind == OpKind::kGather, key.root);
  for (uint16_t i : Participants(from, key.kind == OpKind::kScatter, key.root)) {
    for (uint16_t j : takers) {
      // Block d of an input is for rank d; block s of an output is from rank s. The only block of a
      // gather's input has its owner's number, and so has that of a scatter's output.
      const int32_t in = key.kind == OpKind::kGather ? from[i].value() : to[j].value();
      const int32_t out = key.kind == OpKind::kScatter ? to[j].value() : from[i].value();
      moves.push_back({LocalRanks::Input(i, in), LocalRanks::Output(j, out)});
    }
  }
  return moves;
}

int SlicesFor(size_t moves, int pieces) {
  const size_t per_slice = static_cast<size_t>(pieces);
  return static_cast<int>((moves + per_slice - 1) / per_slice);
}

// The `slice`-th part of one side of `moves`, the same at both ends of a lane.
std::vector<Place> Pieces(const std::vector<Move>& moves, int slice, int pieces, Place Move::*end) {
  const size_t begin = static_cast<size_t>(slice) * static_cast<size_t>(pieces);
  const size_t stop = std::min(moves.size(), begin + static_cast<size_t>(pieces));
  std::vector<Place> places;
  for (size_t i = begin; i < stop; ++i) places.push_back(moves[i].*end);
  return places;
}

absl::Status CheckLength(const PlanKey& key, const Ring& ring, int pieces) {
  int64_t steps = 1;
  for (int hop = 1; hop < ring.hosts(); ++hop) {
    const std::vector<Rank>& other = ring.RanksOf(ring.HostAtDistance(hop));
    steps += 2 * SlicesFor(ring.local().size() * other.size(), pieces);
  }
  if (key.kind != OpKind::kAllToAll || steps < UINT16_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(Name(key.kind)), " with ", ring.local().size(), " ranks on one of ",
                   ring.hosts(), " hosts: its plan has ", steps, " steps, more than ", UINT16_MAX));
}

}  // namespace

int ExchangePieces(const PlanKey& key, const Layout& layout) {
  std::vector<size_t> ranks;
  for (const auto& host : layout.hosts) ranks.push_back(host.size());
  std::sort(ranks.rbegin(), ranks.rend());
  const size_t most = key.kind == OpKind::kAllToAll ? ranks[0] * ranks[1] : ranks[0];
  return static_cast<int>(std::min<size_t>(most, kMaxPieces));
}

absl::StatusOr<Program> DirectExchange(const PlanKey& key, const Ring& ring, int pieces) {
  if (absl::Status s = CheckLength(key, ring, pieces); !s.ok()) return s;
  ProgramBuilder program(ring.channel());
  std::vector<Combine> copies;
  for (const Move& move : BlockMoves(key, ring.local(), ring.local())) {
    copies.push_back({.sources = {move.from}, .destinations = {move.to}});
  }
  if (!copies.empty()) program.Combines(std::move(copies), {});

  for (int hop = 1; hop < ring.hosts(); ++hop) {
    program.BeginStage(hop);
    const HostIndex to = ring.HostAtDistance(-hop);
    const HostIndex from = ring.HostAtDistance(hop);
    const std::vector<Move> out = BlockMoves(key, ring.local(), ring.RanksOf(to));
    const std::vector<Move> in = BlockMoves(key, ring.RanksOf(from), ring.local());
    // Alternate between peers: sending all slices to one first could deadlock with a host that does
    // the same.
    const int sends = SlicesFor(out.size(), pieces);
    const int receives = SlicesFor(in.size(), pieces);
    for (int s = 0; s < std::max(sends, receives); ++s) {
      if (s < sends) program.Send(to, Pieces(out, s, pieces, &Move::from), {});
      if (s < receives) program.ReceiveInto(from, Pieces(in, s, pieces, &Move::to));
    }
  }
  if (ring.hosts() > 1) program.SetHops(1);  // no slice waits for another
  return program.Take();
}

Program DirectAllReduce(const Ring& ring, bool scaled) {
  const LocalRanks local(ring.local(), ring.home());
  const size_t hosts = static_cast<size_t>(ring.hosts());
  ProgramBuilder program(ring.channel());

  // A sum that is sent is rounded to the type, so the host's own sum must be rounded too.
  const bool sum_is_input = local.count() == 1 && !scaled;
  const Place own = sum_is_input ? LocalRanks::Input(0, 0) : local.Landing(0);
  std::vector<HostIndex> targets;
  for (int hop = 1; hop < ring.hosts(); ++hop) targets.push_back(ring.HostAtDistance(-hop));
  std::vector<Place> kept;
  if (!sum_is_input) kept.push_back(own);
  std::vector<uint16_t> after{program.SpreadStaged(targets, {.sources = local.Inputs(0)}, kept)};

  std::vector<Place> sums(hosts);
  sums[static_cast<size_t>(ring.HostAtDistance(0).value())] = own;
  for (int hop = 1; hop < ring.hosts(); ++hop) {
    const HostIndex from = ring.HostAtDistance(hop);
    const uint16_t receive = program.ReceiveInSlot(from, {0});
    sums[static_cast<size_t>(from.value())] = ProgramBuilder::Received(receive, 0, 0);
    after.push_back(receive);
  }
  program.BeginStage(1);
  program.Combines({{.sources = std::move(sums), .destinations = local.Outputs(0), .finish = true}},
                   std::move(after));
  return program.Take();
}

}  // namespace mccs
