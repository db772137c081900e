// The operation loop of a communicator whose ranks are all on one host.
#ifndef MCCS_TESTS_UNIT_COMMUNICATOR_SINGLE_HOST_LOOP_H_
#define MCCS_TESTS_UNIT_COMMUNICATOR_SINGLE_HOST_LOOP_H_

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "service/communicator/schedule/operation_loop.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/sim_network.h"

namespace mccs {

// Ranks from 0 on.
template <typename Port>
std::vector<LocalRank> RanksOf(std::vector<Port>& ports) {
  std::vector<LocalRank> ranks;
  for (Port& port : ports) ranks.push_back({Rank(static_cast<int>(ranks.size())), &port});
  return ranks;
}

class SingleHostLoop {
 public:
  // LIFETIME: `device` and `ranks` outlive it.
  SingleHostLoop(Device& device, std::span<const LocalRank> ranks) {
    strategy_.epoch = Epoch(1);
    strategy_.channels.resize(1);
    strategy_.channels[0].ring = {HostIndex(0)};
    strategy_.lanes = {.slots = 4, .slot_bytes = 16u << 10};
    change_.emplace(StrategyChange::Options{}, strategy_);
    for (const LocalRank& local : ranks) layout_.hosts[0].push_back(local.rank);
    lanes_ = std::move(
        *LaneSet::Make({.access = {.network = nullptr, .random = nullptr, .clock = &clock_},
                        .transport = &transport_,
                        .device = &device,
                        .id = {},
                        .self = HostIndex(0),
                        .hosts = {Endpoint{}},
                        .source_host = {},
                        .strategy = strategy_}));
    loop_.emplace(OperationLoop::Parts{&device, lanes_.get(), &order_, &*change_, &tally_, &clock_},
                  layout_, HostIndex(0), strategy_, ranks);
  }

  OperationLoop& loop() { return *loop_; }

 private:
  SimClock clock_;
  StreamTransport transport_;
  Strategy strategy_;
  Layout layout_{.hosts = {{}}};
  std::unique_ptr<LaneSet> lanes_;
  DecidedOrder order_{nullptr, 1, nullptr};
  std::optional<StrategyChange> change_;
  WorkTally tally_{std::make_shared<TenantCounters>()};
  std::optional<OperationLoop> loop_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_COMMUNICATOR_SINGLE_HOST_LOOP_H_
