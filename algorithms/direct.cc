#include "algorithms/direct.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

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

// One side of `moves`.
std::vector<Place> Ends(const std::vector<Move>& moves, Place Move::*end) {
  std::vector<Place> places;
  places.reserve(moves.size());
  for (const Move& move : moves) places.push_back(move.*end);
  return places;
}

class ExchangeBuild final : public ProgramInParts {
 public:
  ExchangeBuild(const PlanKey& key, const Ring& ring)
      : ProgramInParts(ring, key.packed ? Packing::kBlocks : Packing::kNone), key_(key) {
    if (ring_.hosts() > 1) program_.SetHops(1);  // no slice waits for another
  }

  bool done() const override { return next_ == 2 * ring_.hosts(); }
  void BuildNext() override {
    const int hop = next_ / 2;
    const bool sends = next_ % 2 == 0;
    if (hop == 0) {
      CopyLocalBlocks();
      next_ = 2;
      return;
    }
    program_.BeginStage(hop);
    if (sends) {
      Send(ring_.HostAtDistance(-hop));
    } else {
      Receive(ring_.HostAtDistance(hop));
    }
    ++next_;
  }

 private:
  void CopyLocalBlocks() {
    std::vector<Combine> copies;
    for (const Move& move : BlockMoves(key_, ring_.local(), ring_.local())) {
      copies.push_back({.sources = {move.from}, .destinations = {move.to}});
    }
    if (!copies.empty()) program_.Combines(std::move(copies), {});
  }
  void Send(HostIndex to) {
    const std::vector<Move> moves = BlockMoves(key_, ring_.local(), ring_.RanksOf(to));
    if (!moves.empty()) program_.Send(to, Ends(moves, &Move::from), {});
  }
  void Receive(HostIndex from) {
    const std::vector<Move> moves = BlockMoves(key_, ring_.RanksOf(from), ring_.local());
    if (!moves.empty()) program_.ReceiveInto(from, Ends(moves, &Move::to));
  }

  const PlanKey key_;
  int next_ = 0;  // 0: the local copies; 2k: the send of hop k; 2k + 1: its receive
};

}  // namespace

int ExchangeParts(const PlanKey& key, const Layout& layout) {
  std::vector<size_t> ranks;
  for (const auto& host : layout.hosts) ranks.push_back(host.size());
  std::sort(ranks.rbegin(), ranks.rend());
  return static_cast<int>(key.kind == OpKind::kAllToAll ? ranks[0] * ranks[1] : ranks[0]);
}

std::unique_ptr<ProgramBuild> DirectExchange(const PlanKey& key, const Ring& ring) {
  return std::make_unique<ExchangeBuild>(key, ring);
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
  PlaceList kept;
  if (!sum_is_input) kept.push_back(own);
  std::vector<uint16_t> after{program.SpreadStaged(targets, {.sources = local.Inputs(0)}, kept)};

  PlaceList sums(hosts);
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
