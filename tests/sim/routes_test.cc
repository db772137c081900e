// Lanes leave from the NICs and ports that a strategy names, also while operations run: production
// daemons on hosts with two NICs, over a simulated clock and network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace routes_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uint64_t kElements = 50'000;
constexpr int kHosts = 4;

class SimRoutes : public testing::Test {
 protected:
  SimRoutes() { EXPECT_TRUE(job_.Form()); }

  const agent::v1::Report& report(int host) {
    return world_.host(host).controller().reports.at(changes_.id());
  }
  // Two channels in the hosts' order, each on its own NIC.
  Strategy OnBothNics(uint64_t epoch) {
    Strategy strategy;
    strategy.epoch = Epoch(epoch);
    strategy.lanes = {.slots = 4, .slot_bytes = 16u << 10};
    strategy.origin = "the test";
    for (int nic = 0; nic < 2; ++nic) {
      ChannelStrategy& channel = strategy.channels.emplace_back();
      for (int h = 0; h < kHosts; ++h) {
        channel.ring.push_back(HostIndex(h));
        channel.addresses.push_back(SimAddress(h, nic));
      }
    }
    return strategy;
  }
  void RunOperations(int operations) {
    job_.Fill(kElements);
    for (int i = 0; i < operations; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
    EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kElements), "");
    world_.RunFor(kNsPerSec);  // for the reports
  }
  // Every lane of channel `c` leaves its host from NIC `nic` and arrives at the same NIC of the
  // peer.
  void ExpectOnNic(int c, int nic) {
    for (int h = 0; h < kHosts; ++h) {
      for (const agent::v1::Lane& lane : report(h).lanes()) {
        if (lane.channel() != c) continue;
        EXPECT_THAT(lane.local(), StartsWith(absl::StrCat(SimAddress(h, nic), ":")));
        EXPECT_EQ(lane.remote(), absl::StrCat(SimAddress(lane.to(), nic), ":7400"));
        EXPECT_EQ(lane.state(), "up");
      }
    }
  }
  std::string LocalOf(int host, int channel, int to) {
    for (const agent::v1::Lane& lane : report(host).lanes()) {
      if (lane.channel() == channel && lane.to() == to) return lane.local();
    }
    return "no lane";
  }

  SimWorld world_{{.seed = 1, .hosts = kHosts, .nics = 2}};
  SimJob job_{world_, {0, 1, 2, 3}, kElements * sizeof(float)};
  ProposedChanges changes_{world_, kHosts};
};

TEST_F(SimRoutes, ChannelsUseTheNicsOfTheStrategy) {
  ASSERT_TRUE(changes_.Apply(OnBothNics(2)));
  RunOperations(3);
  ExpectOnNic(0, 0);
  ExpectOnNic(1, 1);
  for (int h = 0; h < kHosts; ++h) {
    for (const agent::v1::Lane& lane : report(h).lanes()) EXPECT_GT(lane.payload_bytes(), 0u);
  }
}

TEST_F(SimRoutes, LanesMoveToOtherNicsWhileOperationsRun) {
  ASSERT_TRUE(changes_.Apply(OnBothNics(2)));
  std::mt19937_64 random(1);
  uint64_t epoch = 2;
  job_.Fill(kElements);
  for (int change = 0; change < 20; ++change) {
    for (int i = 0; i < 3; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
    Strategy moved = OnBothNics(++epoch);
    if (epoch % 2 == 1) std::swap(moved.channels[0].addresses, moved.channels[1].addresses);
    changes_.Propose(moved);
    world_.RunFor(RandomUs(random, 3000));
  }
  ASSERT_TRUE(world_.RunUntil([&] { return job_.Done() && changes_.AllAt(epoch); }))
      << job_.rank(0).failure();
  EXPECT_EQ(job_.Wrong(OpKind::kAllReduce, kElements), 0u);
  RunOperations(1);
  ExpectOnNic(0, 0);
  ExpectOnNic(1, 1);
  Strategy swapped = OnBothNics(++epoch);
  std::swap(swapped.channels[0].addresses, swapped.channels[1].addresses);
  ASSERT_TRUE(changes_.Apply(swapped));
  RunOperations(1);
  ExpectOnNic(0, 1);
  ExpectOnNic(1, 0);
  const uint64_t before = report(0).lanes(0).payload_bytes();
  EXPECT_GT(before, 0u) << "the lanes must be moved, not replaced";
}

// Both as a change of routes only, and as a change of the ring.
TEST_F(SimRoutes, RejectForeignAddressWithoutAChange) {
  ASSERT_TRUE(changes_.Apply(OnBothNics(2)));
  for (const bool routes_alone : {true, false}) {
    SCOPED_TRACE(routes_alone);
    Strategy foreign = OnBothNics(routes_alone ? 3 : 5);
    foreign.channels[1].addresses[2] = "10.9.9.9";
    if (!routes_alone) {
      std::swap(foreign.channels[0].ring[1], foreign.channels[0].ring[2]);
      std::swap(foreign.channels[0].addresses[1], foreign.channels[0].addresses[2]);
    }
    changes_.Propose(foreign);
    ASSERT_TRUE(world_.RunUntil([&] { return !report(0).change_error().empty(); }));
    EXPECT_THAT(report(0).change_error(), AllOf(HasSubstr("host h2"), HasSubstr("channel 1"),
                                                HasSubstr("source address 10.9.9.9")));
    RunOperations(2);
    ExpectOnNic(0, 0);
    ExpectOnNic(1, 1);
    Strategy next = OnBothNics(foreign.epoch.value() + 1);
    next.channels[0].source_ports = {61000, 61001, 61002, 61003};
    ASSERT_TRUE(changes_.Apply(next)) << "the next proposal must be accepted";
    EXPECT_THAT(report(0).change_error(), IsEmpty());
    RunOperations(1);
    EXPECT_EQ(LocalOf(2, 0, 3), SimAddress(2) + ":61002");
  }
}

TEST_F(SimRoutes, LanesOfADirectPlanUseTheirPorts) {
  Strategy direct = OnBothNics(2);
  direct.algorithms.rules = {{OpKind::kAllReduce, Algorithm::kDirect, 0, 1 << 20}};
  const auto name_ports = [&](uint16_t first) {
    for (ChannelStrategy& channel : direct.channels) {
      channel.other_lanes.clear();
      for (int from = 0; from < kHosts; ++from) {
        for (int to = 0; to < kHosts; ++to) {
          if (to == from || to == (from + 1) % kHosts) continue;
          channel.other_lanes.push_back(
              {HostIndex(from), HostIndex(to), static_cast<uint16_t>(first + kHosts * from + to)});
        }
      }
    }
  };
  name_ports(61000);
  ASSERT_TRUE(changes_.Apply(direct));
  RunOperations(2);
  ExpectOnNic(0, 0);
  ExpectOnNic(1, 1);
  EXPECT_EQ(LocalOf(0, 0, 2), SimAddress(0, 0) + ":61002");
  EXPECT_EQ(LocalOf(3, 1, 1), SimAddress(3, 1) + ":61013");
  // They move as the ring's lanes do.
  direct.epoch = Epoch(3);
  name_ports(62000);
  ASSERT_TRUE(changes_.Apply(direct));
  RunOperations(2);
  EXPECT_EQ(LocalOf(0, 0, 2), SimAddress(0, 0) + ":62002");
  EXPECT_EQ(LocalOf(3, 1, 1), SimAddress(3, 1) + ":62013");
}

}  // namespace routes_test
}  // namespace mccs
