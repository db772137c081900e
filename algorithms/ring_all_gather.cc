// All-gather: each host's inputs travel around the ring once, one piece per rank of the source
// host.
//
// The source host sends from its ranks' inputs. On the others slices land in the output of the
// first local rank, are forwarded from there, and are copied to the other local ranks.
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {
namespace {

// The places of the blocks of `origin` in the first local rank's output.
std::vector<Place> Landing(const Ring& ring, HostIndex origin) {
  std::vector<Place> places;
  for (Rank rank : ring.RanksOf(origin)) places.push_back(LocalRanks::Output(0, rank.value()));
  return places;
}

}  // namespace

Program RingAllGather(const Ring& ring) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local());
  ProgramBuilder program(ring.channel());

  std::vector<Place> inputs;
  std::vector<Combine> copies;
  for (uint16_t i = 0; i < local.count(); ++i) {
    const Place input = LocalRanks::Input(i, local.BlockOf(i));
    inputs.push_back(input);
    copies.push_back({.sources = {input}, .destinations = local.Outputs(input.block)});
  }
  program.Send(ring.next(), std::move(inputs), {});

  for (int hop = 0; hop <= hosts - 2; ++hop) {
    std::vector<Place> landing = Landing(ring, ring.HostAtDistance(hop + 1));
    const uint16_t receive = program.ReceiveInto(ring.previous(), landing);
    if (hop == 0) program.Combines(std::move(copies), {});
    program.BeginStage(hop + 1);
    if (hop < hosts - 2) program.Send(ring.next(), landing, {receive});
    if (local.count() == 1) continue;
    std::vector<Combine> spread;
    for (const Place& place : landing) {
      spread.push_back({.sources = {place}, .destinations = local.OtherOutputs(place.block)});
    }
    program.Combines(std::move(spread), {receive});
  }
  return program.Take();
}

}  // namespace mccs
