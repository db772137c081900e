#include "algorithms/direct_all_reduce.h"

#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

namespace mccs {

Program DirectAllReduce(const Ring& ring, bool scaled) {
  const LocalRanks local(ring.local());
  const size_t hosts = static_cast<size_t>(ring.hosts());
  ProgramBuilder program(ring.channel());

  // A sum that is sent is rounded to the type, so the host's own sum must be rounded too.
  const bool sum_is_input = local.count() == 1 && !scaled;
  const Place own = sum_is_input ? LocalRanks::Input(0, 0) : LocalRanks::Output(0, 0);
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
