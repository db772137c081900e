// Lanes over RDMA move to other NICs when a NIC, its port or its cable fails, and return:
// production daemons on hosts with two NICs each, over fake verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/scenario.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace nic_failover_test {

constexpr uint64_t kElements = 50'000;
constexpr int kHosts = 3;
using Link = SimNetwork::Link;

// One channel, on NIC 1 of each host; control links use NIC 0.
class SimNicFailover : public testing::Test {
 protected:
  explicit SimNicFailover(int nics = 2)
      : world_({.seed = 1, .hosts = kHosts, .nics = nics, .verbs = FakeVerbsOptions{}}) {
    EXPECT_TRUE(job_.Form());
    EXPECT_TRUE(changes_.Apply(OnNic(nics - 1, 2)));
  }

  Strategy OnNic(int nic, uint64_t epoch, bool reversed = false) const {
    Strategy strategy = reversed ? changes_.Reversed(epoch) : changes_.InOrder(epoch);
    strategy.lanes = {.slots = 4, .slot_bytes = 16u << 10};
    ChannelStrategy& channel = strategy.channels[0];
    for (const HostIndex host : channel.ring) {
      channel.addresses.push_back(SimAddress(host.value(), nic));
    }
    return strategy;
  }
  // Of the lane out of this host.
  std::string StateOf(int host) {
    return world_.host(host).controller().reports.at(changes_.id()).lanes(0).state();
  }
  bool LeavesFrom(int host, int nic) {
    const agent::v1::Report& report = world_.host(host).controller().reports.at(changes_.id());
    return absl::StartsWith(report.lanes(0).local(), absl::StrCat(SimAddress(host, nic), ":"));
  }
  int LanesOnNic(int nic) {
    int lanes = 0;
    for (int h = 0; h < kHosts; ++h) lanes += LeavesFrom(h, nic) ? 1 : 0;
    return lanes;
  }
  void Run(int operations) {
    job_.Fill(kElements);
    for (int i = 0; i < operations; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
    EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kElements), "");
  }
  // With operations now and then, after which the hosts report.
  void RunFor(int64_t ns) {
    Run(1);
    world_.RunFor(ns);
  }
  // Posts operations, changes a link in the midst of them, and waits for their end.
  void RunWhile(int host, int nic, Link link) {
    job_.Fill(kElements);
    for (int i = 0; i < 50; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
    world_.RunFor(2 * kNsPerMs);
    ASSERT_FALSE(job_.Done());
    world_.SetLink(host, nic, link);
    EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kElements), "");
    EXPECT_EQ(job_.Wrong(OpKind::kAllReduce, kElements), 0u);
  }

  SimWorld world_;
  SimJob job_{world_, {0, 1, 2}, kElements * sizeof(float)};
  ProposedChanges changes_{world_, kHosts};
};

class SimOneNic : public SimNicFailover {
 protected:
  SimOneNic() : SimNicFailover(1) {}
};

TEST_F(SimNicFailover, OperationsContinueOverTheOtherNicAndLanesReturn) {
  for (const Link link : {Link::kDown, Link::kLost}) {
    SCOPED_TRACE(link == Link::kDown ? "its host sees it" : "its host does not see it");
    RunFor(kNsPerSec);
    EXPECT_EQ(LanesOnNic(1), kHosts);
    RunWhile(1, 1, link);
    RunFor(kNsPerSec);
    EXPECT_TRUE(LeavesFrom(1, 0)) << StateOf(1);
    EXPECT_THAT(StateOf(1), Mentions("cannot move to source", SimAddress(1, 1)));
    Run(1);
    world_.SetLink(1, 1, Link::kUp);
    Run(1);
    // A lane that leaves its route again returns later.
    for (int i = 0; i < 20 && LanesOnNic(1) < kHosts; ++i) RunFor(kNsPerSec);
    EXPECT_EQ(LanesOnNic(1), kHosts) << StateOf(0) << "; " << StateOf(1) << "; " << StateOf(2);
    EXPECT_EQ(StateOf(1), "up");
  }
}

TEST_F(SimNicFailover, AnIdleJobContinuesLater) {
  for (const Link link : {Link::kDown, Link::kLost}) {
    world_.SetLink(2, 1, link);
    world_.RunFor(30 * kNsPerSec);
    Run(2);
    world_.SetLink(2, 1, Link::kUp);
    world_.RunFor(30 * kNsPerSec);
    Run(2);
  }
}

TEST_F(SimNicFailover, ARingOverABrokenNicOpensOverTheOther) {
  for (const Link link : {Link::kDown, Link::kLost}) {
    const bool first = link == Link::kDown;
    world_.SetLink(0, 1, link);
    ASSERT_TRUE(changes_.Apply(OnNic(1, first ? 3 : 4, first))) << changes_.change_error();
    Run(2);
    world_.RunFor(kNsPerSec);
    EXPECT_TRUE(LeavesFrom(0, 0)) << StateOf(0);
    world_.SetLink(0, 1, Link::kUp);
  }
}

// Only RDMA is blocked, as by a firewall.
TEST_F(SimNicFailover, ANicThatPassesOnlyTcpIsLeft) {
  world_.fabric().reachable = [&](const FakeNic& from, const FakeNic& to) {
    return from.host() != SimAddress(1, 1) && to.host() != SimAddress(1, 1);
  };
  Run(3);
  world_.RunFor(kNsPerSec);
  EXPECT_TRUE(LeavesFrom(1, 0)) << StateOf(1);
}

TEST_F(SimNicFailover, TheCommunicatorFailsWithoutAnyNic) {
  job_.Fill(kElements);
  for (int i = 0; i < 50; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
  world_.RunFor(2 * kNsPerMs);
  const MonotonicNs down = world_.clock().Now();
  for (const int nic : {0, 1}) world_.SetLink(1, nic, Link::kDown);
  ASSERT_TRUE(world_.RunUntil([&] { return !job_.rank(1).failure().empty(); }));
  EXPECT_LT(world_.clock().Now() - down, kNsPerSec);
  EXPECT_THAT(job_.rank(1).failure(), Mentions("lane"));
  // The first cause that ends a lane: a request in flight when the links go down fails, or else the
  // port stays down.
  EXPECT_THAT(job_.rank(1).failure(),
              testing::AnyOf(Mentions("queue pair"), Mentions("h1_1 port 1")));
}

TEST_F(SimOneNic, ACommunicatorOverWhichOnlyTcpPassesFails) {
  world_.fabric().reachable = [](const FakeNic&, const FakeNic&) { return false; };
  job_.Fill(kElements);
  job_.PostAll(OpKind::kAllReduce, kElements);
  const MonotonicNs began = world_.clock().Now();
  ASSERT_TRUE(world_.RunUntil([&] { return !job_.rank(0).failure().empty(); }));
  EXPECT_LT(world_.clock().Now() - began, 2 * kNsPerSec);
  EXPECT_THAT(job_.rank(0).failure(), Mentions("lane of channel 0"));
}

}  // namespace nic_failover_test
}  // namespace mccs
