// Two hosts that do not reach each other, while the controller and other hosts reach both:
// production daemons, agents and controllers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace unreachable_hosts_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::UnorderedElementsAre;

constexpr uint64_t kElements = 20'000;
constexpr size_t kBytes = kElements * sizeof(float);
const HostPair kPair{"h1", "h2"};

class SimUnreachableHosts : public testing::Test {
 protected:
  explicit SimUnreachableHosts(int hosts = 4)
      : world_({.seed = 7, .hosts = hosts, .controller = MakeSimControl(7, &control_)}) {
    world_.RunFor(kNsPerSec);  // The hosts register.
  }

  void Cut(int a = 1, int b = 2) { world_.network().Partition(SimAddress(a), SimAddress(b)); }
  void Heal(int a = 1, int b = 2) { world_.network().Heal(SimAddress(a), SimAddress(b)); }
  std::map<HostPair, UnreachablePair> Pairs() {
    return control_->With([](Coordinator& c) { return c.state().unreachable.pairs(); });
  }
  bool RunUntilPairs(size_t pairs) {
    return world_.RunUntil([&] { return Pairs().size() == pairs; }, 30 * kNsPerSec);
  }
  std::unique_ptr<SimJob> Job(const std::vector<int>& host_of_rank) {
    return std::make_unique<SimJob>(world_, host_of_rank, kBytes);
  }
  // The init of these ranks fails, within `limit_ns`; returns the first error message.
  std::string FailureOfInit(SimJob& job, const std::vector<int>& ranks, int64_t limit_ns) {
    EXPECT_TRUE(job.Begin());
    EXPECT_TRUE(world_.RunUntil(
        [&] { return std::ranges::all_of(ranks, [&](int r) { return job.rank(r).answered; }); },
        limit_ns));
    for (const int r : ranks) EXPECT_EQ(job.rank(r).status.error, wire::ErrorClass::kRemote);
    return job.rank(ranks.front()).status.text;
  }
  // A job of the two hosts fails, by which they find the pair.
  void FindPair() {
    Cut();
    const auto job = Job({1, 2});
    FailureOfInit(*job, {1}, 30 * kNsPerSec);
    ASSERT_TRUE(RunUntilPairs(1));
    world_.RunFor(kNsPerSec);  // Both daemons get it.
  }
  // Neighbours around all rings of the only communicator: whether the pair is among them.
  bool UsesPair() {
    bool uses = false;
    control_->With([&](Coordinator& c) {
      for (const auto& [id, record] : c.registry().communicators()) {
        for (const strategy::ChannelStrategy& channel : record.Newest().channels()) {
          for (int i = 0; i < channel.ring_size(); ++i) {
            const auto& hosts = record.announced.hosts();
            uses |= UnreachablePairs::PairOf(hosts[channel.ring(i)],
                                             hosts[channel.ring((i + 1) % channel.ring_size())]) ==
                    kPair;
          }
        }
      }
    });
    return uses;
  }

  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
};

class SimThreeHosts : public SimUnreachableHosts {
 protected:
  SimThreeHosts() : SimUnreachableHosts(3) {}
};

TEST_F(SimUnreachableHosts, TheNextJobRunsAroundThePair) {
  Cut();
  const auto first = Job({0, 1, 2, 3});
  EXPECT_THAT(FailureOfInit(*first, {0, 1, 2, 3}, 15 * kNsPerSec), Mentions("10.0.0.3"));
  ASSERT_TRUE(RunUntilPairs(1));
  EXPECT_THAT(Pairs(), ElementsAre(Key(kPair)));
  EXPECT_THAT(Describe(kPair, Pairs().at(kPair)), Mentions("h1", "h2", "no answer"));
  const auto second = Job({0, 1, 2, 3});
  ASSERT_TRUE(second->Form());
  EXPECT_FALSE(UsesPair());
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduceScatter,
                            OpKind::kAllGather, OpKind::kReduce}) {
    for (const uint64_t count : {uint64_t{1}, kElements / 4})
      EXPECT_EQ(second->Run(kind, count), "") << Name(kind) << " of " << count;
  }
}

// It reports all other hosts, so that each of them gets an entry with that endpoint.
TEST_F(SimUnreachableHosts, ADaemonWithTheEndpointOfAnotherCutsOffNobody) {
  ControllerLink& liar =
      control_->AddHost(4, {.pod = "", .rack = "", .host = "liar"},
                        ToString(Endpoint{SimAddress(2), kSimPort}), world_.clock());
  world_.RunFor(kNsPerSec);
  agent::v1::UnreachableHosts report;
  report.set_revision(1);
  for (const char* host : {"h0", "h1", "h3"}) report.add_unreachable()->set_host(host);
  liar.SetUnreachableHosts(report);
  ASSERT_TRUE(RunUntilPairs(3));
  world_.RunFor(kNsPerSec);
  const auto job = Job({2, 0, 1, 3});
  ASSERT_TRUE(job->Form());
  EXPECT_EQ(job->Run(OpKind::kAllReduce, kElements / 4), "");
}

TEST_F(SimUnreachableHosts, HealingEndsThePair) {
  FindPair();
  const auto job = Job({0, 1, 2, 3});
  ASSERT_TRUE(job->Form());
  EXPECT_FALSE(UsesPair());
  Heal();
  ASSERT_TRUE(RunUntilPairs(0));
  world_.RunFor(kNsPerSec);  // The daemons get it.
  EXPECT_TRUE(UsesPair());
  EXPECT_EQ(job->Run(OpKind::kAllReduce, kElements), "");
  const auto of_the_pair = Job({1, 2});
  ASSERT_TRUE(of_the_pair->Form());
  EXPECT_EQ(of_the_pair->Run(OpKind::kAllReduce, kElements), "");
}

TEST_F(SimUnreachableHosts, AJobOfTheTwoHostsFailsAtOnce) {
  FindPair();
  const auto job = Job({1, 2});
  const std::string failure = FailureOfInit(*job, {1}, kNsPerSec);
  EXPECT_THAT(failure, Mentions("h1", "h2", "unreachable for", "repair the network"));
  // On the other side, too: the controller has shown it the pair.
  const auto reverse = Job({2, 1});
  EXPECT_THAT(FailureOfInit(*reverse, {1}, kNsPerSec), Mentions("h1", "h2", "unreachable for"));
}

TEST_F(SimUnreachableHosts, MessagesBetweenTheTwoHostsFailWhenCalledAndOthersDoNot) {
  FindPair();
  const auto other = Job({0, 1, 2, 3});
  const auto job = Job({0, 1, 2, 3});
  ASSERT_TRUE(other->Form() && job->Form());
  job->Fill(kElements);
  job->Post(0, {.sends = true, .peer = 1, .count = 100});
  job->Post(1, {.sends = false, .peer = 0, .count = 100});
  ASSERT_TRUE(job->Complete());
  job->Post(2, {.sends = true, .peer = 1, .count = 100});
  job->Post(1, {.sends = false, .peer = 2, .count = 100});
  ASSERT_TRUE(job->RunUntilFailed({0, 1, 2, 3}, 2 * kNsPerSec));
  EXPECT_THAT(job->rank(2).failure(), Mentions("h1", "h2", "unreachable for"));
  EXPECT_EQ(other->Run(OpKind::kAllReduce, kElements), "");
}

TEST_F(SimUnreachableHosts, ARestartedControllerLearnsThePairAgain) {
  FindPair();
  control_->Kill();
  world_.RunFor(kNsPerSec);
  control_->Restart();
  EXPECT_THAT(Pairs(), IsEmpty());
  ASSERT_TRUE(RunUntilPairs(1));
  Heal();
  EXPECT_TRUE(RunUntilPairs(0));
}

TEST_F(SimUnreachableHosts, ALostHostIsInNoPair) {
  FindPair();
  world_.Kill(1);
  ASSERT_TRUE(RunUntilPairs(0));
  world_.RunFor(20 * kNsPerSec);
  world_.Restart(1);
  EXPECT_TRUE(RunUntilPairs(1));  // h2 has reported it, and still cannot connect to it.
  world_.Kill(2);
  ASSERT_TRUE(RunUntilPairs(0));
}

TEST_F(SimUnreachableHosts, ASuspicionAloneHasNoEffect) {
  for (int host = 0; host < 4; ++host) {
    const auto job = Job({host, (host + 1) % 4});
    ASSERT_TRUE(job->Form());
    world_.network().Cut(SimAddress(host), SimAddress((host + 1) % 4));
    ASSERT_TRUE(job->RunUntilFailed({0, 1}));
    world_.RunFor(5 * kNsPerSec);
    EXPECT_THAT(Pairs(), IsEmpty());
  }
}

TEST_F(SimThreeHosts, ARingOverThePairFailsAtOnceWithBothNames) {
  Cut();
  const auto first = Job({0, 1, 2});
  FailureOfInit(*first, {0, 1, 2}, 15 * kNsPerSec);
  ASSERT_TRUE(RunUntilPairs(1));
  world_.RunFor(kNsPerSec);
  const auto second = Job({0, 1, 2});
  EXPECT_THAT(FailureOfInit(*second, {0, 1, 2}, kNsPerSec),
              Mentions("h1", "h2", "unreachable for", "repair the network"));
  const auto without = Job({0, 1});
  ASSERT_TRUE(without->Form());
  EXPECT_EQ(without->Run(OpKind::kAllReduce, kElements), "");
}

// The rendezvous is on h0, which reaches both.
TEST_F(SimThreeHosts, ALeaderThatAMemberCannotReachFailsAtOnceOnAllHosts) {
  FindPair();
  SimTenant& starter = world_.AddTenant(0);
  ASSERT_TRUE(world_.GetUniqueId(starter));
  std::vector<SimRank*> ranks;
  for (const int host : {1, 0, 2}) {
    SimTenant& process = world_.AddTenant(host);
    ASSERT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    ranks.push_back(&process.Init(starter.unique_id(), 3, static_cast<int>(ranks.size())));
  }
  ASSERT_TRUE(world_.RunUntil(
      [&] { return std::ranges::all_of(ranks, [](SimRank* rank) { return rank->answered; }); },
      kNsPerSec));
  for (SimRank* rank : ranks)
    EXPECT_THAT(rank->status.text, Mentions("h1", "h2", "unreachable for"));
}

}  // namespace unreachable_hosts_test
}  // namespace mccs
