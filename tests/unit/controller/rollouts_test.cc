#include "controller/state/rollouts.h"

#include <gtest/gtest.h>

#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace rollouts_test {

constexpr CommId kId{7};

class RolloutsTest : public testing::Test {
 protected:
  RolloutsTest() {
    record_.announced = MakeAnnounce(7, {"h0", "h1"});
    record_.leader = "h0";
  }
  void Propose(uint64_t epoch, int64_t now_ms) {
    strategy::Strategy strategy;
    strategy.set_epoch(epoch);
    strategy.set_origin("locality_ring by gold");
    rollouts_.OnProposed(kId, record_, strategy, now_ms * kNsPerMs);
  }
  void Report(const std::string& host, uint64_t epoch, int64_t now_ms,
              uint64_t rejected_epoch = 0) {
    agent::v1::Report report;
    report.set_epoch(epoch);
    report.set_rejected_epoch(rejected_epoch);
    record_.reports[host] = report;
    rollouts_.OnReported(kId, host, report, now_ms * kNsPerMs);
  }

  CommunicatorRecord record_;
  Rollouts rollouts_;
};

TEST_F(RolloutsTest, ProposalIsAppliedWhenEveryHostHasReportedIt) {
  Propose(2, 0);
  EXPECT_EQ(rollouts_.pending(), 1u);
  Report("h0", 2, 100);
  Report("h1", 1, 150);
  ASSERT_NE(rollouts_.FindPending(kId), nullptr);
  EXPECT_EQ(rollouts_.FindPending(kId)->awaited, std::set<std::string>{"h1"});
  Report("h1", 2, 250);
  EXPECT_EQ(rollouts_.pending(), 0u);
  EXPECT_EQ(rollouts_.times().count(), 1u);
  EXPECT_DOUBLE_EQ(rollouts_.times().sum_seconds, 0.25);
  EXPECT_EQ(rollouts_.times().counts[5], 1u) << "above 0.1 s, up to 0.3 s";
  EXPECT_EQ(rollouts_.by_policy().at("locality_ring"), 1u);
}

TEST_F(RolloutsTest, LaterProposalSupersedesAPendingOne) {
  Propose(2, 0);
  Propose(3, 10);
  EXPECT_EQ(rollouts_.superseded(), 1u);
  Report("h0", 3, 20);
  Report("h1", 3, 20);
  EXPECT_EQ(rollouts_.times().count(), 1u);
  EXPECT_DOUBLE_EQ(rollouts_.times().sum_seconds, 0.01);
}

TEST_F(RolloutsTest, ProposalDroppedByTheLeaderIsDropped) {
  Report("h0", 1, 0, 2);
  Propose(3, 0);
  Report("h0", 1, 10, 2);
  EXPECT_EQ(rollouts_.pending(), 1u) << "that was the last one";
  Report("h1", 1, 10, 3);
  EXPECT_EQ(rollouts_.pending(), 1u) << "the leader decides";
  Report("h0", 1, 20, 3);
  EXPECT_EQ(rollouts_.pending(), 0u);
  EXPECT_EQ(rollouts_.dropped(), 1u);
}

TEST_F(RolloutsTest, PruneRemovesEndedCommunicators) {
  Propose(2, 0);
  rollouts_.Prune({{kId, record_}});
  EXPECT_EQ(rollouts_.pending(), 1u);
  rollouts_.Prune({});
  EXPECT_EQ(rollouts_.pending(), 0u);
}

}  // namespace rollouts_test
}  // namespace mccs
