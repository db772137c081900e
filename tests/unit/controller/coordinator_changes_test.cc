// Proposals and rate limits for running communicators.
#include <map>
#include <set>

#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace coordinator_changes_test {

class CoordinatorChangesTest : public CoordinatorTest {};

// It runs another controller's proposal, so nothing changes; or its daemons' default.
TEST_F(CoordinatorChangesTest, PlansARunningCommunicatorAtTheNextTick) {
  Send(kFirst, Registration(MakeHost("h0")));
  agent::v1::Announce running = MakeRunning(1, {"h0", "h1"});
  EXPECT_TRUE(Send(kFirst, Announcement(running)).empty());
  EXPECT_EQ(communicators(), 1u);
  std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 2u);
  *running.mutable_strategy() = out[0].message->propose().strategy();
  Send(kFirst, Announcement(running));
  EXPECT_TRUE(Tick().empty());
}

TEST_F(CoordinatorChangesTest, ProposesOperatorsChangesToRunningCommunicators) {
  StartCommunicator();
  EXPECT_TRUE(Tick().empty());
  const std::vector<Outgoing> out = Reverse();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, kFirst);
  EXPECT_THAT(RingOf(out), testing::ElementsAre(1, 0));
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 3u);
  EXPECT_EQ(Describe("0")->summary().epoch(), 2u);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring");
  ApplyProposal(out);
  EXPECT_EQ(Describe("0")->summary().epoch(), 3u);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring by reverse");
  EXPECT_TRUE(Tick().empty());
}

TEST_F(CoordinatorChangesTest, EventsThatCancelOutSendNothing) {
  StartCommunicator();
  Tick();
  EXPECT_TRUE(Send(kFirst, Announcement(MakeRunning(2, {"h0", "h1"}))).empty());
  EXPECT_TRUE(Send(kFirst, Ending(2)).empty());
  EXPECT_TRUE(Tick().empty());
}

TEST_F(CoordinatorChangesTest, OlderProposalMayBeAppliedBeforeTheNewest) {
  StartCommunicator();
  const std::vector<Outgoing> there = Reverse();
  const std::vector<Outgoing> back = SetPolicy("[h0, h1]");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].message->propose().strategy().epoch(), 4u);
  ApplyProposal(there);
  EXPECT_THAT(Describe("0")->rings(0).hosts(), testing::ElementsAre("h1", "h0"));
  EXPECT_TRUE(Tick().empty()) << "the newest is under way";
  ApplyProposal(back);
  EXPECT_THAT(Describe("0")->rings(0).hosts(), testing::ElementsAre("h0", "h1"));
}

// Our daemons never send this; policies must not look up hosts that do not exist.
TEST_F(CoordinatorChangesTest, DropsProposalsForOtherHosts) {
  StartCommunicator();
  ASSERT_EQ(Reverse().size(), 1u);
  agent::v1::Announce announce = MakeRunning(1, {"h0"});
  announce.mutable_strategy()->set_epoch(2);
  Send(kFirst, Announcement(announce));
  EXPECT_TRUE(RecordOf(1).proposed.empty());
  Tick();
}

TEST_F(CoordinatorChangesTest, RepeatsARejectedProposalLaterWithANewEpoch) {
  StartCommunicator();
  Reverse();
  Send(kFirst, Rejecting(3));
  EXPECT_TRUE(TickFor(Coordinator::kProposalTimeoutNs - 2 * kNsPerSec).empty());
  const std::vector<Outgoing> again = TickFor(3 * kNsPerSec);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].message->propose().strategy().epoch(), 4u);
  EXPECT_THAT(RingOf(again), testing::ElementsAre(1, 0));
}

TEST_F(CoordinatorChangesTest, RecordsItsOwnChangesWithTheirCause) {
  StartCommunicator();
  Tick();
  Reverse();
  EXPECT_TRUE(coordinator_.TakeEvents().empty()) << "the operator's, or a first strategy";
  Send(kFirst, Rejecting(3));
  const std::vector<ControllerEvent> rejected = coordinator_.TakeEvents();
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].action, "reject-proposal");
  EXPECT_EQ(rejected[0].outcome, "rejected: host h1: no such address");
  TickFor(Coordinator::kProposalTimeoutNs + kNsPerSec);
  const std::vector<ControllerEvent> replanned = coordinator_.TakeEvents();
  ASSERT_EQ(replanned.size(), 1u);
  EXPECT_EQ(replanned[0].action, "replan");
  EXPECT_THAT(replanned[0].objects,
              testing::HasSubstr("communicator 0000000000000001: channel 0: h1 → h0 → h1"));
  EXPECT_EQ(replanned[0].outcome, "proposed: failed proposals are retried");
  TickFor(10 * kNsPerSec);
  EXPECT_TRUE(coordinator_.TakeEvents().empty()) << "none for a Tick";
}

TEST_F(CoordinatorChangesTest, ProposesAnotherPolicyAtOnceAfterAFailedProposal) {
  StartCommunicator();
  Reverse();
  Send(kFirst, Rejecting(3));
  const std::vector<Outgoing> other = SetPolicy("[h1]");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].message->propose().strategy().epoch(), 4u);
}

TEST_F(CoordinatorChangesTest, ProposalWithoutReplyExpiresAndIsRepeated) {
  StartCommunicator();
  Reverse();
  EXPECT_TRUE(TickFor(Coordinator::kProposalTimeoutNs).empty());
  coordinator_.TakeEvents();
  TickFor(2 * kNsPerSec);
  const std::vector<ControllerEvent> expired = coordinator_.TakeEvents();
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].action, "time-out-proposal");
  EXPECT_EQ(expired[0].outcome, "timed out: no reply from the leader");
  const std::vector<Outgoing> again = TickFor(Coordinator::kProposalTimeoutNs);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].message->propose().strategy().epoch(), 4u);
}

// An earlier controller proposed it before it died.
TEST_F(CoordinatorChangesTest, RevertsAStrategyOfAnotherController) {
  agent::v1::Announce running = MakeRunning(1, {"h0", "h1"});
  running.set_newest_epoch(6);
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  Send(kSecond, Registration(MakeHost("h1")));
  const std::vector<Outgoing> first = Tick();
  ApplyProposal(first);
  EXPECT_EQ(first[0].message->propose().strategy().epoch(), 7u) << "above the other's";
  EXPECT_TRUE(Tick().empty());
  running.mutable_strategy()->set_epoch(9);
  running.set_newest_epoch(9);
  Send(kFirst, Announcement(running));
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 10u);
}

TEST_F(CoordinatorChangesTest, SendsAProposalWhenTheLeaderReconnects) {
  StartCommunicator();
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  EXPECT_TRUE(Reverse().empty());
  agent::v1::Announce running = MakeRunning(1, {"h0", "h1"});
  running.mutable_strategy()->set_epoch(2);
  Send(kThird, Registration(MakeHost("h0"), {running}));
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, kThird);
  EXPECT_THAT(RingOf(out), testing::ElementsAre(1, 0));
}

// The lanes of a rejected ring do not exist, and those that run must have their shares.
TEST_F(CoordinatorChangesTest, LimitsAreThoseOfTheRunningRingAfterARejectedProposal) {
  const std::string topology = TopologyDocument("t", "h[0-2]");
  SetObjects(Together({topology, PolicyDocument("p",
                                                "  type: locality_ring\n  parameters: "
                                                "{order: [h2, h1, h0]}\n")}));
  RegisterPair();
  Send(kThird, Registration(MakeHost("h2")));
  ApplyProposal(Send(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1", "h2"}))));
  const auto lanes_in = [](const std::vector<Outgoing>& out) {
    std::set<std::pair<int, int>> lanes;
    for (const Outgoing& each : out) {
      if (!each.message || !each.message->has_rate_limits()) continue;
      for (const agent::v1::LaneRateLimit& lane : each.message->rate_limits().lanes()) {
        lanes.insert({lane.from(), lane.to()});
      }
    }
    return lanes;
  };
  const std::vector<Outgoing> out =
      SetObjects(Together({topology, PolicyDocument("p", "  type: shares\n")}));
  EXPECT_THAT(lanes_in(out), testing::UnorderedElementsAre(testing::Pair(0, 1), testing::Pair(1, 2),
                                                           testing::Pair(2, 0)));
  agent::v1::FromAgent rejection = Reporting(1, RecordOf(1).announced.strategy().epoch());
  ReportIn(&rejection)->set_rejected_epoch(RecordOf(1).newest_epoch);
  Send(kFirst, rejection);
  EXPECT_THAT(lanes_in(Tick()), testing::UnorderedElementsAre(
                                    testing::Pair(2, 1), testing::Pair(1, 0), testing::Pair(0, 2)));
}

using Caps = std::map<AgentKey, std::pair<std::string, uint64_t>>;

// By host: the Tenant of the cap that it was sent, and the cap.
Caps CapsIn(const std::vector<Outgoing>& out) {
  Caps caps;
  for (const Outgoing& each : out) {
    if (!each.message.has_value() || !each.message->has_rate_limits()) continue;
    const agent::v1::RateLimits& limits = each.message->rate_limits();
    caps[each.to] = {limits.tenant(), limits.tenant_rate_bps()};
  }
  return caps;
}

// Its daemon registers without it, because only a running communicator is part of a registration.
TEST_F(CoordinatorChangesTest, SendsACapAgainToAReconnectedLeaderOfANewCommunicator) {
  SetObjects(
      Together({TopologyDocument("t", "h[0-1]"), TenantDocument("a", 1000, "  cap: 5Gbit/s\n")}));
  AnnouncePair();
  Tick();
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  Send(kThird, Registration(MakeHost("h0")));
  std::vector<Outgoing> out = Send(kThird, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  for (Outgoing& each : Tick()) out.push_back(std::move(each));
  const std::pair<std::string, uint64_t> cap = {"a", 5'000'000'000};
  EXPECT_EQ(CapsIn(out), (Caps{{kThird, cap}}));
}

TEST_F(CoordinatorChangesTest, SendsACapOnceToEachHostAndToReconnectingHosts) {
  StartCommunicator();
  Tick();
  const auto set = [&](const std::string& cap) {
    return CapsIn(
        SetObjects(Together({TopologyDocument("t", "h[0-1]"), TenantDocument("a", 1000, cap)})));
  };
  const std::pair<std::string, uint64_t> cap = {"a", 5'000'000'000}, none = {"", 0};
  EXPECT_EQ(set("  cap: 5Gbit/s\n"), (Caps{{kFirst, cap}, {kSecond, cap}}));
  EXPECT_TRUE(set("  cap: 5Gbit/s\n").empty());
  EXPECT_EQ(CapsIn(Send(kThird, Registration(MakeHost("h1")))), (Caps{{kThird, cap}}));
  EXPECT_EQ(set(""), (Caps{{kFirst, none}, {kThird, none}}));
}

TEST_F(CoordinatorChangesTest, OthersGetTheRateOfARemovedCommunicator) {
  SetObjects(Together({TopologyDocument("t"), TenantDocument("a", 1), TenantDocument("b", 2),
                       PolicyDocument("p", "  type: shares\n")}));
  RegisterPair();
  uint64_t rate_bps = 0;  // of h1's lane of communicator 2, as last sent
  const auto take = [&](const std::vector<Outgoing>& outbox) {
    for (const Outgoing& out : outbox) {
      const bool is_it = out.message && out.message->has_rate_limits() && out.to == kSecond &&
                         out.message->rate_limits().comm_id() == 2;
      if (is_it) rate_bps = out.message->rate_limits().lanes(0).rate_bps();
      if (out.message && out.message->has_propose()) ApplyProposal(out);
    }
  };
  agent::v1::Announce one = MakeAnnounce(1, {"h0", "h1"}), two = MakeAnnounce(2, {"h1", "h0"});
  one.set_tenant("uid 1");
  two.set_tenant("uid 2");
  take(Send(kFirst, Announcement(one)));
  take(Send(kSecond, Announcement(two)));
  const auto tick_for = [&](int64_t ns) {
    for (const MonotonicNs end = clock_.now + ns; clock_.now < end;) {
      clock_.now += kNsPerSec;
      Send(kSecond, Beat());
      take(Tick());
    }
  };
  coordinator_.OnStreamClosed(kFirst, "its connection closed");
  tick_for(Coordinator::kOrphanTimeoutNs);
  EXPECT_EQ(communicators(), 2u);
  const uint64_t half_bps = rate_bps;
  EXPECT_GT(half_bps, 20'000'000'000u);
  tick_for(2 * kNsPerSec);
  EXPECT_EQ(communicators(), 1u);
  EXPECT_NEAR(static_cast<double>(rate_bps), 2.0 * static_cast<double>(half_bps), 2);
}

// An earlier controller may have sent them caps, rates or windows.
TEST_F(CoordinatorChangesTest, LiftsOldLimitsOnceAfterTheStart) {
  agent::v1::Announce running = MakeRunning(1, {"h0", "h1"});
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  const auto tick = [&](int64_t ns) {
    clock_.now += ns;
    for (const AgentKey agent : {kFirst, kSecond, kThird}) Send(agent, Beat());
    return CapsIn(Tick());
  };
  const std::pair<std::string, uint64_t> none = {"", 0};
  EXPECT_TRUE(tick(Coordinator::kLiftOldLimitsAfterNs - 1).empty());
  EXPECT_EQ(tick(1), (Caps{{kFirst, none}}));
  EXPECT_EQ(CapsIn(Send(kSecond, Registration(MakeHost("h1")))), (Caps{{kSecond, none}}));
  for (int second = 0; second < 30; ++second) EXPECT_TRUE(tick(kNsPerSec).empty());
  // Likewise one that reconnects, whatever another controller has sent it.
  EXPECT_EQ(CapsIn(Send(kThird, Registration(MakeHost("h1")))), (Caps{{kThird, none}}));
  running.set_comm_id(2);
  Send(kFirst, Announcement(running));
  EXPECT_EQ(tick(kNsPerSec), (Caps{{kFirst, none}, {kThird, none}}));
  EXPECT_TRUE(tick(kNsPerSec).empty());
}

}  // namespace coordinator_changes_test
}  // namespace mccs
