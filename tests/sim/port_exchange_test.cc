// Active lanes exchange their source ports: each has the port that another one wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace port_exchange_test {

using testing::EndsWith;

constexpr uint64_t kSeeds = 20;
constexpr uint64_t kElements = 100'000;
constexpr int kHosts = 2;

// Channel c uses the c-th port, on every host.
Strategy WithPorts(const ProposedChanges& changes, uint64_t epoch,
                   const std::vector<uint16_t>& ports) {
  Strategy strategy = changes.InOrder(epoch);
  strategy.channels.resize(ports.size(), strategy.channels.front());
  for (size_t c = 0; c < ports.size(); ++c) {
    strategy.channels[c].source_ports.assign(kHosts, ports[c]);
  }
  return strategy;
}

void ExpectOnPorts(SimWorld& world, CommId id, const std::vector<uint16_t>& ports) {
  for (int h = 0; h < kHosts; ++h) {
    for (const agent::v1::Lane& lane : world.host(h).controller().reports.at(id).lanes()) {
      EXPECT_EQ(lane.state(), "up") << "host " << h << ", channel " << lane.channel();
      EXPECT_THAT(lane.local(), EndsWith(absl::StrCat(":", ports.at(lane.channel()))))
          << "host " << h;
    }
  }
}

// Exchanges of two lanes, of three in a cycle, and of random subsets.
TEST(SimPortExchange, LanesExchangePortsDuringOperations) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job, changes] = RunningJob(seed, {0, 1, 0}, kElements * sizeof(float));
    std::vector<uint16_t> ports(2 + seed % 4);
    for (size_t c = 0; c < ports.size(); ++c) ports[c] = static_cast<uint16_t>(61'000 + c);
    ASSERT_TRUE(changes.Apply(WithPorts(changes, 2, ports)));
    world.RunFor(3 * kNsPerSec);
    for (uint64_t epoch = 3; epoch <= 5; ++epoch) {
      std::rotate(ports.begin(), ports.begin() + 1, ports.end());
      if (epoch > 3) std::shuffle(ports.begin(), ports.end(), random);
      job.Fill(kElements);
      for (int i = 0; i < 4; ++i) job.PostAll(OpKind::kAllReduce, kElements);
      world.RunFor(RandomUs(random, 2000));
      changes.Propose(WithPorts(changes, epoch, ports));
      ASSERT_TRUE(world.RunUntil([&] { return job.Done() && changes.AllAt(epoch); }))
          << job.rank(0).failure() << changes.change_error();
      EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kElements), 0u);
      world.RunFor(3 * kNsPerSec);
      job.PostAll(OpKind::kAllReduce, 10);  // triggers a report
      world.RunFor(kNsPerSec);
      ExpectOnPorts(world, changes.id(), ports);
    }
  }
}

// The port's holder is not a lane: the lane keeps working, is restored when it breaks, reports the
// port, and moves once that is free.
TEST(SimPortExchange, LaneWaitsForAPortHeldByAnotherConnection) {
  auto [world, job, changes] = RunningJob(1, {0, 1}, kElements * sizeof(float));
  ASSERT_TRUE(changes.Apply(WithPorts(changes, 2, {61'000})));
  const auto lane = [&] {
    job.PostAll(OpKind::kAllReduce, 10);
    world.RunFor(2 * kNsPerSec);
    return world.host(0).controller().reports.at(changes.id()).lanes(0);
  };
  const auto remote = ParseEndpoint(lane().remote());
  ASSERT_TRUE(remote.ok());
  Network& network = world.network().HostNetwork(world.host(0).address());
  auto foreign = network.Connect(*remote, {.source_host = "", .source_port = 61'001});
  ASSERT_TRUE(foreign.ok());
  Strategy moved = WithPorts(changes, 3, {61'001});
  ASSERT_TRUE(changes.Apply(moved));
  EXPECT_THAT(lane().state(), testing::HasSubstr("cannot move to source 10.0.0.1:61001"));
  const uint64_t reconnects = lane().reconnects();
  EXPECT_EQ(lane().reconnects(), reconnects) << "it must reconnect only once";
  EXPECT_TRUE(network.Connect(*remote, {.source_host = "", .source_port = 61'000}).ok());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(job.Run(OpKind::kAllReduce, 1000), "");
    ASSERT_TRUE(world.CutLane(lane().local()));
    world.RunFor(300 * kNsPerMs);
  }
  EXPECT_THAT(lane().state(), testing::HasSubstr("cannot move to source 10.0.0.1:61001"));
  foreign->reset();
  world.RunFor(3 * kNsPerSec);
  EXPECT_THAT(lane().local(), EndsWith(":61001"));
  EXPECT_EQ(lane().state(), "up");
  EXPECT_FALSE(job.rank(0).failed()) << job.rank(0).failure();
}

}  // namespace port_exchange_test
}  // namespace mccs
