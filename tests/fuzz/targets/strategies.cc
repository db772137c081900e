// Strategies from a controller or a peer (proto/strategy.proto): rejected with an error message, or
// valid. A valid one comes back from its own message unchanged, has a route for each pair of hosts,
// and its plans can be built.
//
// FUZZES: service/communicator/strategy/strategy.cc service/communicator/strategy/plan_cache.cc
// FUZZES: algorithms/algorithm_choice.cc
#include "base/check.h"
#include "proto/strategy.pb.h"
#include "service/communicator/strategy/plan_cache.h"
#include "service/communicator/strategy/strategy.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace strategies_fuzz {

constexpr int kMostHosts = 4;
// Work of a plan cache until an estimate is there: more is a livelock.
constexpr int kMostTurns = 10'000;

void CheckPlans(const Strategy& strategy, const Layout& layout, FuzzInput& input) {
  PlanCache plans(layout, strategy, HostIndex(0));
  const EstimatedCall call{.kind = static_cast<OpKind>(input.Below(kOpKinds + 1)),
                           .type = static_cast<DataType>(input.Below(kDataTypes + 1)),
                           .root_or_peer = static_cast<int32_t>(input.Below(8)) - 1,
                           .count = input.Take<uint64_t>()};
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const auto estimate = plans.EstimateUs(call);
    if (!estimate.ok()) {
      MCCS_CHECK(!estimate.status().message().empty());
      return;
    }
    if (estimate->has_value()) {
      MCCS_CHECK(**estimate >= 0);
      return;
    }
    plans.Work(1 << 20);
  }
  MCCS_CHECK(false);
}

void Run(FuzzInput input) {
  const int hosts = 1 + static_cast<int>(input.Below(kMostHosts));
  Layout layout;
  int ranks = 0;
  for (int h = 0; h < hosts; ++h) {
    std::vector<Rank>& of_host = layout.hosts.emplace_back();
    for (uint32_t r = input.Below(3) + 1; r > 0; --r) of_host.push_back(Rank(ranks++));
  }
  const bool builds = input.Below(4) == 0;
  FuzzInput call = input;
  input.Bytes(16);
  strategy::Strategy message;
  if (!message.ParseFromString(input.Rest())) return;
  const absl::StatusOr<Strategy> strategy = StrategyFromProto(message, hosts);
  if (!strategy.ok()) {
    MCCS_CHECK(absl::IsInvalidArgument(strategy.status()) && !strategy.status().message().empty());
    return;
  }
  strategy::Strategy again;
  ToProto(*strategy, &again);
  const absl::StatusOr<Strategy> same = StrategyFromProto(again, hosts);
  MCCS_CHECK(same.ok() && *same == *strategy);
  MCCS_CHECK(Compare(*strategy, *same) == StrategyDifference::kRoutes);
  for (const ChannelStrategy& channel : strategy->channels) {
    for (int from = 0; from < hosts; ++from) {
      for (int to = 0; to < hosts; ++to) {
        if (from != to) RouteOf(channel, HostIndex(from), HostIndex(to));
      }
    }
  }
  MCCS_CHECK(MaxPeers(*strategy) >= hosts - 1 || hosts > 2);
  if (const absl::Status homes = CheckHomes(*strategy, layout); !homes.ok()) {
    MCCS_CHECK(!homes.message().empty());
    return;
  }
  if (builds) CheckPlans(*strategy, layout, call);
}

const FuzzTarget kTarget("strategies", Run);

}  // namespace strategies_fuzz
}  // namespace mccs
