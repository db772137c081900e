// Reduce-scatter: the share of each target host travels around the ring once and ends there.
//
// A slice has one piece per rank of its target host. It starts at the host after the target and
// accumulates the inputs of each host on its path; the target adds its own directly into its ranks'
// outputs.
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {
namespace {

// The blocks of the ranks of `target`: the pieces of its slices.
std::vector<int32_t> BlocksOf(const Ring& ring, HostIndex target) {
  std::vector<int32_t> blocks;
  for (Rank rank : ring.RanksOf(target)) blocks.push_back(rank.value());
  return blocks;
}

void SendFirst(ProgramBuilder& program, const Ring& ring, bool scaled) {
  const LocalRanks local(ring.local());
  const std::vector<int32_t> blocks = BlocksOf(ring, ring.HostAtDistance(1));
  if (local.count() == 1 && !scaled) {
    std::vector<Place> pieces;
    for (int32_t block : blocks) pieces.push_back(LocalRanks::Input(0, block));
    program.Send(ring.next(), std::move(pieces), {});
    return;
  }
  std::vector<ProgramBuilder::Piece> pieces;
  for (int32_t block : blocks) pieces.push_back({.sources = local.Inputs(block), .block = block});
  program.SendStaged(ring.next(), std::move(pieces), {});
}

}  // namespace

Program RingReduceScatter(const Ring& ring, bool scaled) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local());
  ProgramBuilder program(ring.channel());

  SendFirst(program, ring, scaled);
  std::vector<int32_t> blocks = BlocksOf(ring, ring.HostAtDistance(2));
  uint16_t receive = program.ReceiveInSlot(ring.previous(), blocks);

  for (int hop = 1; hop <= hosts - 2; ++hop) {
    program.BeginStage(hop);
    std::vector<ProgramBuilder::Piece> pieces;
    for (uint16_t p = 0; p < blocks.size(); ++p) {
      const Place received = ProgramBuilder::Received(receive, p, blocks[p]);
      pieces.push_back({.sources = local.WithReceived(received), .block = blocks[p]});
    }
    program.SendStaged(ring.next(), std::move(pieces), {receive});
    blocks = BlocksOf(ring, ring.HostAtDistance(hop + 2));
    receive = program.ReceiveInSlot(ring.previous(), blocks);
  }

  program.BeginStage(hosts - 1);
  std::vector<Combine> whole;
  for (uint16_t p = 0; p < blocks.size(); ++p) {
    whole.push_back({.sources = local.WithReceived(ProgramBuilder::Received(receive, p, blocks[p])),
                     .destinations = {LocalRanks::Output(p, blocks[p])},
                     .finish = true});
  }
  program.Combines(std::move(whole), {receive});
  return program.Take();
}

}  // namespace mccs
