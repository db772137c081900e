// One host: each output is one combine of the local ranks' inputs, in one memory pass.
#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {
namespace {

uint16_t PositionOf(Rank rank, const std::vector<Rank>& ranks) {
  return static_cast<uint16_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Program LocalProgram(const PlanKey& key, const std::vector<Rank>& ranks, ChannelId channel) {
  const LocalRanks local(ranks);
  std::vector<Combine> combines;
  switch (key.kind) {
    case OpKind::kAllReduce:
      combines.push_back(
          {.sources = local.Inputs(0), .destinations = local.Outputs(0), .finish = true});
      break;
    case OpKind::kReduceScatter:
      for (uint16_t i = 0; i < local.count(); ++i) {
        const int32_t block = local.BlockOf(i);
        combines.push_back({.sources = local.Inputs(block),
                            .destinations = {LocalRanks::Output(i, block)},
                            .finish = true});
      }
      break;
    case OpKind::kAllGather:
      for (uint16_t i = 0; i < local.count(); ++i) {
        const int32_t block = local.BlockOf(i);
        combines.push_back(
            {.sources = {LocalRanks::Input(i, block)}, .destinations = local.Outputs(block)});
      }
      break;
    case OpKind::kReduce:
      combines.push_back({.sources = local.Inputs(0),
                          .destinations = {LocalRanks::Output(PositionOf(key.root, ranks), 0)},
                          .finish = true});
      break;
    default:  // Broadcast.
      combines.push_back({.sources = {LocalRanks::Input(PositionOf(key.root, ranks), 0)},
                          .destinations = local.Outputs(0)});
  }
  ProgramBuilder program(channel);
  program.Combines(std::move(combines), {});
  return program.Take();
}

}  // namespace mccs
