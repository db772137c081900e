#include "controller/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "controller/operator_view.h"
#include "tests/unit/controller/announcements.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace {

using testing::HasSubstr;

constexpr AgentKey kFirst{1}, kSecond{2}, kThird{3};

class HandClock final : public Clock {
 public:
  MonotonicNs Now() const override { return now; }
  MonotonicNs now = 1000 * kNsPerSec;
};

class CoordinatorTest : public testing::Test {
 protected:
  // What the coordinator answers to `message`.
  std::vector<Outgoing> Say(AgentKey agent, const agent::FromAgent& message) {
    coordinator_.Hear(agent, message);
    return coordinator_.TakeOutbox();
  }
  void ExpectEnded(const std::vector<Outgoing>& out, AgentKey agent, const std::string& why) {
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].to, agent);
    EXPECT_FALSE(out[0].message.has_value());
    EXPECT_THAT(std::string(out[0].end.message()), HasSubstr(why));
  }
  std::string StateOf(int host) {
    return ListHosts(coordinator_.registry(), coordinator_.objects(), clock_.now)
        .hosts(host)
        .state();
  }
  absl::StatusOr<control::CommunicatorDetail> Describe(const std::string& id) {
    return DescribeCommunicator(coordinator_.registry(), coordinator_.rollouts(), id, clock_.now);
  }
  std::vector<Outgoing> Tick() {
    coordinator_.Tick();
    return coordinator_.TakeOutbox();
  }
  // What is proposed in all that time, by a coordinator that hears the first host's heart.
  std::vector<Outgoing> TickFor(int64_t ns) {
    std::vector<Outgoing> proposals;
    for (const MonotonicNs end = clock_.now + ns; clock_.now < end;) {
      clock_.now = std::min(clock_.now + kNsPerSec, end);
      Say(kFirst, Beat());
      Say(kSecond, Beat());
      for (Outgoing& out : Tick()) proposals.push_back(std::move(out));
    }
    return proposals;
  }
  // Communicator 1 runs on h0 and h1, in this order, with epoch 2.
  void StartCommunicator() {
    Say(kFirst, Registration(MakeHost("h0")));
    Say(kSecond, Registration(MakeHost("h1")));
    Adopt(Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"}))));
  }
  // The leader says that what was proposed in `out` runs.
  void Adopt(const std::vector<Outgoing>& out) {
    ASSERT_EQ(out.size(), 1u);
    const agent::Propose& propose = out[0].message->propose();
    agent::Announce announce = coordinator_.registry().communicators().begin()->second.announced;
    announce.set_running(true);
    *announce.mutable_strategy() = propose.strategy();
    announce.set_newest_epoch(propose.strategy().epoch());
    Say(kFirst, Announcement(announce));
    Say(kFirst, Reporting(propose.comm_id(), propose.strategy().epoch()));
  }
  std::vector<Outgoing> SetPolicy(const std::string& order) {
    coordinator_.SetObjects(std::make_shared<ObjectSet>(After(
        {}, Together({TopologyDocument("t", "h[0-1]"), PolicyDocument("reverse",
                                                                      "  policy: locality_ring\n"
                                                                      "  parameters: {order: " +
                                                                          order + "}\n")}))));
    return coordinator_.TakeOutbox();
  }
  std::vector<Outgoing> Reverse() { return SetPolicy("[h1, h0]"); }
  static agent::FromAgent Refusing(uint64_t epoch) {
    agent::FromAgent message = Reporting(1, 2);
    message.mutable_report()->set_refused_epoch(epoch);
    message.mutable_report()->set_change_trouble("host h1: no such address");
    return message;
  }
  static std::vector<int> RingOf(const std::vector<Outgoing>& out) {
    const auto& ring = out[0].message->propose().strategy().channels(0).ring();
    return {ring.begin(), ring.end()};
  }
  size_t communicators() { return coordinator_.registry().communicators().size(); }

  HandClock clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  Coordinator coordinator_{
      {.heartbeat_timeout_ns = 3 * kNsPerSec, .version = "test"}, &clock_, log_.get()};
};

TEST_F(CoordinatorTest, AHostThatRegistersIsReadyAndLearnsTheHeartbeat) {
  const auto out = Say(kFirst, Registration(MakeHost("h0", "r1")));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->registered().heartbeat_every_ns(), kNsPerSec);
  EXPECT_EQ(out[0].message->registered().heartbeat_timeout_ns(), 3 * kNsPerSec);
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, ANewCommunicatorIsAnsweredWithARing) {
  Say(kFirst, Registration(MakeHost("h0", "r1")));
  Say(kSecond, Registration(MakeHost("h1", "r1")));
  const auto out = Say(kFirst, Announcement(MakeAnnounce(0xabc, {"h1", "h0"}, 2)));
  ASSERT_EQ(out.size(), 1u);
  const agent::Propose& propose = out[0].message->propose();
  EXPECT_EQ(propose.comm_id(), 0xabcu);
  EXPECT_THAT(propose.strategy().channels(0).ring(), testing::ElementsAre(1, 0));
  EXPECT_EQ(propose.strategy().channels(1).source_ports_size(), 2);
}

TEST_F(CoordinatorTest, WhatIsInForceIsWhatTheLeaderSays) {
  Say(kFirst, Registration(MakeHost("h0")));
  const auto out = Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  EXPECT_EQ(Describe("0")->summary().strategy(), "daemon default");
  EXPECT_EQ(Describe("0")->summary().state(), "starting");
  Adopt(out);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring");
  EXPECT_EQ(Describe("0")->summary().epoch(), 2u);
  EXPECT_EQ(Describe("0")->summary().state(), "active");
}

TEST_F(CoordinatorTest, ADescriptionSaysWhereAProposalIsAwaited) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  EXPECT_EQ(Describe("0")->change().epoch(), 2u);
  EXPECT_THAT(Describe("0")->change().awaited(), testing::ElementsAre("h0", "h1"));
  EXPECT_EQ(Describe("0")->progress_size(), 0) << "nobody has reported";
  clock_.now += kNsPerSec;
  Say(kSecond, Reporting(1, 1));
  agent::FromAgent leader = Reporting(1, 2);
  leader.mutable_report()->set_operations(40);
  Say(kFirst, leader);
  const auto detail = Describe("0");
  ASSERT_EQ(detail->progress_size(), 2);
  EXPECT_EQ(detail->progress(0).host(), "h0");
  EXPECT_EQ(detail->progress(0).epoch(), 2u);
  EXPECT_EQ(detail->progress(0).operations(), 40u);
  EXPECT_EQ(detail->progress(1).epoch(), 1u);
  EXPECT_EQ(detail->change().age_ns(), kNsPerSec);
  EXPECT_THAT(detail->change().awaited(), testing::ElementsAre("h1"));
  Say(kSecond, Reporting(1, 2));
  EXPECT_FALSE(Describe("0")->has_change());
}

TEST_F(CoordinatorTest, ADescriptionHasTheLeadersTrouble) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  agent::FromAgent message = Reporting(1, 1);
  message.mutable_report()->set_change_trouble("no memory for the new lanes");
  message.mutable_report()->set_refused_epoch(2);
  Say(kFirst, message);
  Say(kSecond, Reporting(1, 1));
  EXPECT_EQ(Describe("0")->change_trouble(), "no memory for the new lanes");
  EXPECT_FALSE(Describe("0")->has_change()) << "it was given up";
}

// It may run what another controller proposed, and then nothing changes; or its daemons' default.
TEST_F(CoordinatorTest, ACommunicatorThatRunsIsLookedAtWithTheNextTick) {
  Say(kFirst, Registration(MakeHost("h0")));
  agent::Announce running = MakeAnnounce(1, {"h0", "h1"});
  running.set_running(true);
  EXPECT_TRUE(Say(kFirst, Announcement(running)).empty());
  EXPECT_EQ(communicators(), 1u);
  std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 2u);
  *running.mutable_strategy() = out[0].message->propose().strategy();
  Say(kFirst, Announcement(running));
  EXPECT_TRUE(Tick().empty());
}

TEST_F(CoordinatorTest, WhatOperatorsWantIsProposedToWhatRuns) {
  StartCommunicator();
  EXPECT_TRUE(Tick().empty());
  const std::vector<Outgoing> out = Reverse();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, kFirst);
  EXPECT_THAT(RingOf(out), testing::ElementsAre(1, 0));
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 3u);
  EXPECT_EQ(Describe("0")->summary().epoch(), 2u);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring");
  Adopt(out);
  EXPECT_EQ(Describe("0")->summary().epoch(), 3u);
  EXPECT_EQ(Describe("0")->summary().strategy(), "locality_ring by reverse");
  EXPECT_TRUE(Tick().empty());
}

TEST_F(CoordinatorTest, AnOlderProposalMayYetComeIntoForceBeforeTheNewest) {
  StartCommunicator();
  const std::vector<Outgoing> there = Reverse();
  const std::vector<Outgoing> back = SetPolicy("[h0, h1]");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].message->propose().strategy().epoch(), 4u);
  Adopt(there);
  EXPECT_THAT(Describe("0")->rings(0).hosts(), testing::ElementsAre("h1", "h0"));
  EXPECT_TRUE(Tick().empty()) << "the newest is under way";
  Adopt(back);
  EXPECT_THAT(Describe("0")->rings(0).hosts(), testing::ElementsAre("h0", "h1"));
}

TEST_F(CoordinatorTest, WhatTheLeaderGivesUpIsProposedAgainAfterAWhileWithANewEpoch) {
  StartCommunicator();
  Reverse();
  Say(kFirst, Refusing(3));
  EXPECT_TRUE(TickFor(Coordinator::kProposalPatienceNs - 2 * kNsPerSec).empty());
  const std::vector<Outgoing> again = TickFor(3 * kNsPerSec);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].message->propose().strategy().epoch(), 4u);
  EXPECT_THAT(RingOf(again), testing::ElementsAre(1, 0));
}

TEST_F(CoordinatorTest, OtherWishesAreProposedAtOnceThoughOneWasGivenUp) {
  StartCommunicator();
  Reverse();
  Say(kFirst, Refusing(3));
  const std::vector<Outgoing> other = SetPolicy("[h1]");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].message->propose().strategy().epoch(), 4u);
}

TEST_F(CoordinatorTest, AProposalThatNobodyAnswersIsGivenUpAndRepeated) {
  StartCommunicator();
  Reverse();
  EXPECT_TRUE(TickFor(Coordinator::kProposalPatienceNs).empty());
  TickFor(2 * kNsPerSec);
  const std::vector<Outgoing> again = TickFor(Coordinator::kProposalPatienceNs);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].message->propose().strategy().epoch(), 4u);
}

TEST_F(CoordinatorTest, EpochsThatALeaderGaveUpBeforeThisControllerAreNotUsedAgain) {
  Say(kFirst, Registration(MakeHost("h0")));
  agent::Announce running = MakeAnnounce(1, {"h0", "h1"});
  running.set_running(true);
  Say(kFirst, Announcement(running));
  agent::FromAgent report = Reporting(1, 1);
  report.mutable_report()->set_refused_epoch(7);
  Say(kFirst, report);
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 8u);
}

TEST_F(CoordinatorTest, EpochsThatAnotherControllerGaveOutAreNotUsedAgain) {
  agent::Announce running = MakeAnnounce(1, {"h0", "h1"});
  running.set_running(true);
  running.set_newest_epoch(6);
  Say(kFirst, Registration(MakeHost("h0"), {running}));
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 7u);
}

// It was under way when the controller before this one died.
TEST_F(CoordinatorTest, WhatComesIntoForceWithoutThisControllerIsChangedBack) {
  agent::Announce running = MakeAnnounce(1, {"h0", "h1"});
  running.set_running(true);
  running.set_newest_epoch(6);
  Say(kFirst, Registration(MakeHost("h0"), {running}));
  Say(kSecond, Registration(MakeHost("h1")));
  Adopt(Tick());
  EXPECT_TRUE(Tick().empty());
  running.mutable_strategy()->set_epoch(9);
  running.set_newest_epoch(9);
  Say(kFirst, Announcement(running));
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message->propose().strategy().epoch(), 10u);
}

TEST_F(CoordinatorTest, ALeaderThatIsAwayIsToldWhenItIsBack) {
  StartCommunicator();
  coordinator_.Gone(kFirst, "its connection closed");
  EXPECT_TRUE(Reverse().empty());
  agent::Announce running = MakeAnnounce(1, {"h0", "h1"});
  running.set_running(true);
  running.mutable_strategy()->set_epoch(2);
  Say(kThird, Registration(MakeHost("h0"), {running}));
  const std::vector<Outgoing> out = Tick();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, kThird);
  EXPECT_THAT(RingOf(out), testing::ElementsAre(1, 0));
}

TEST_F(CoordinatorTest, TheLeadersEndIsTheEndAndAMembersIsNot) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  Say(kSecond, Ending(1));
  EXPECT_EQ(communicators(), 1u);
  Say(kFirst, Ending(1));
  EXPECT_EQ(communicators(), 0u);
}

TEST_F(CoordinatorTest, AFailedReportOfAnyHostIsTheState) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  Say(kFirst, Reporting(1, 2));
  Say(kSecond, Reporting(1, 2, "failed: rank 1 is gone"));
  EXPECT_EQ(Describe("0")->summary().state(), "failed: rank 1 is gone (h1)");
}

TEST_F(CoordinatorTest, OptionsOfCallsAreShownAsTheFurthestHostSays) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  Say(kSecond, Reporting(1, 2));
  EXPECT_FALSE(Describe("0")->has_with_options());
  for (const auto& [connection, number] : {std::pair{kFirst, 18}, std::pair{kSecond, 17}}) {
    agent::FromAgent message = Reporting(1, 2);
    message.mutable_report()->mutable_with_options()->set_last_number(number);
    Say(connection, message);
  }
  EXPECT_EQ(Describe("0")->with_options().last_number(), 18u);
}

TEST_F(CoordinatorTest, CapturedGroupsAreThoseOfTheHostThatHasMost) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  agent::FromAgent report = Reporting(1, 2);
  for (const auto& [connection, groups] : {std::pair{kFirst, 3}, std::pair{kSecond, 2}}) {
    report.mutable_report()->set_captured_groups(groups);
    Say(connection, report);
  }
  EXPECT_EQ(Describe("0")->captured_groups(), 3u);
}

TEST_F(CoordinatorTest, WhoHoldsAnOperationUpIsToldOncePerSentence) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  agent::FromAgent report = Reporting(1, 2);
  report.mutable_report()->set_held_up("operation #3: rank 0 waits for rank 1 on h1");
  Say(kFirst, report);
  Say(kSecond, report);
  EXPECT_THAT(Describe("0")->held_up(),
              testing::ElementsAre("operation #3: rank 0 waits for rank 1 on h1"));
  Say(kFirst, Reporting(1, 2));
  Say(kSecond, Reporting(1, 2));
  EXPECT_EQ(Describe("0")->held_up_size(), 0);
}

TEST_F(CoordinatorTest, HeartbeatsKeepAHostAndSilenceLosesIt) {
  Say(kFirst, Registration(MakeHost("h0")));
  for (int i = 0; i < 10; ++i) {
    clock_.now += 2 * kNsPerSec;
    EXPECT_TRUE(Say(kFirst, Beat())[0].message->has_heartbeat());
    coordinator_.Tick();
    EXPECT_EQ(StateOf(0), "ready");
  }
  clock_.now += 3 * kNsPerSec + 1;
  coordinator_.Tick();
  EXPECT_THAT(StateOf(0), HasSubstr("lost: silent for more than 3000 ms"));
  ExpectEnded(coordinator_.TakeOutbox(), kFirst, "silent");
}

TEST_F(CoordinatorTest, AHostThatComesBackBringsWhatItLeads) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  Say(kFirst, Announcement(MakeAnnounce(2, {"h0", "h1"})));
  coordinator_.Gone(kFirst, "its connection closed");
  EXPECT_THAT(Describe("0000000000000001")->summary().state(),
              HasSubstr("its leader h0 is not connected"));
  Say(kSecond, Registration(MakeHost("h0"), {MakeAnnounce(2, {"h0", "h1"})}));
  EXPECT_EQ(StateOf(0), "ready");
  EXPECT_EQ(communicators(), 1u);
  EXPECT_TRUE(Describe("0000000000000002").ok());
}

TEST_F(CoordinatorTest, CommunicatorsOfALeaderThatStaysAwayAreForgotten) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  coordinator_.Gone(kFirst, "its connection closed");
  clock_.now += Coordinator::kForgetOrphansAfterNs;
  coordinator_.Tick();
  EXPECT_EQ(communicators(), 1u);
  clock_.now += 1;
  coordinator_.Tick();
  EXPECT_EQ(communicators(), 0u);
}

TEST_F(CoordinatorTest, TheSameDaemonOnANewStreamReplacesItsOldOne) {
  Say(kFirst, Registration(MakeHost("h0")));
  const auto out = Say(kSecond, Registration(MakeHost("h0")));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].to, kFirst);
  EXPECT_FALSE(out[0].message.has_value());
  EXPECT_TRUE(out[1].message->has_registered());
  coordinator_.Gone(kFirst, "its connection closed");
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, AnotherDaemonOfTheSameNameIsRefusedWithBothEndpoints) {
  Say(kFirst, Registration(MakeHost("h0", "", "10.0.0.1:7400")));
  const auto out = Say(kSecond, Registration(MakeHost("h0", "", "10.0.0.2:7400")));
  ExpectEnded(out, kSecond, "10.0.0.1:7400");
  EXPECT_THAT(std::string(out[0].end.message()), HasSubstr("10.0.0.2:7400"));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, AnAgentOfAnotherProtocolIsRefusedAndSeen) {
  agent::FromAgent message = Registration(MakeHost("h0"));
  message.mutable_registration()->set_protocol(99);
  ExpectEnded(Say(kFirst, message), kFirst, "install the same release");
  EXPECT_THAT(StateOf(0), HasSubstr("refused: "));
  Say(kSecond, Registration(MakeHost("h0")));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(CoordinatorTest, WordsBeforeRegistrationAndASecondRegistrationEndTheStream) {
  ExpectEnded(Say(kFirst, Beat()), kFirst, "must be Register");
  Say(kSecond, Registration(MakeHost("h0")));
  ExpectEnded(Say(kSecond, Registration(MakeHost("h0"))), kSecond, "once per stream");
  ExpectEnded(Say(kThird, Registration(MakeHost(""))), kThird, "no host name");
}

TEST_F(CoordinatorTest, NonsenseAboutCommunicatorsChangesNothing) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  agent::Announce bad_ring = MakeAnnounce(1, {"h0", "h1"});
  bad_ring.mutable_strategy()->mutable_channels(0)->set_ring(0, 7);
  EXPECT_TRUE(Say(kFirst, Announcement(bad_ring)).empty());
  EXPECT_TRUE(Say(kFirst, Announcement(MakeAnnounce(0, {"h0"}))).empty());
  EXPECT_TRUE(Say(kFirst, Announcement(MakeAnnounce(1, {}))).empty());
  EXPECT_TRUE(Say(kFirst, Reporting(77, 1)).empty());
  EXPECT_TRUE(Say(kFirst, Ending(77)).empty());
  EXPECT_EQ(communicators(), 0u);

  Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1"})));
  EXPECT_TRUE(Say(kSecond, Announcement(MakeAnnounce(1, {"h1"}))).empty())
      << "another host leads it";
  EXPECT_EQ(Describe("0")->summary().hosts(), 2);
}

TEST_F(CoordinatorTest, ACommunicatorIsFoundByAnUnambiguousPrefix) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kFirst, Announcement(MakeAnnounce(0xab00000000000001, {"h0"})));
  Say(kFirst, Announcement(MakeAnnounce(0xac00000000000002, {"h0"})));
  EXPECT_EQ(Describe("ab")->summary().id(), "ab00000000000001");
  EXPECT_THAT(std::string(Describe("a").status().message()), HasSubstr("fits 2 communicators"));
  EXPECT_EQ(Describe("a").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Describe("ff").status().code(), absl::StatusCode::kNotFound);
  for (const char* id : {"", "xyz", "00000000000000000"}) {
    EXPECT_EQ(Describe(id).status().code(), absl::StatusCode::kInvalidArgument) << id;
  }
}

TEST_F(CoordinatorTest, LanesAreShownInTheRingsOrderWithTheirChosenPorts) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  const auto out = Say(kFirst, Announcement(MakeAnnounce(1, {"h1", "h0"})));
  Adopt(out);
  const auto& ports = out[0].message->propose().strategy().channels(0).source_ports();
  const auto report = [](int from, int to) {
    agent::FromAgent message = Reporting(1, 2);
    agent::Lane* lane = message.mutable_report()->add_lanes();
    lane->set_from(from);
    lane->set_to(to);
    return message;
  };
  Say(kFirst, report(1, 0));
  Say(kSecond, report(0, 1));
  const control::CommunicatorDetail detail = *Describe("0");
  EXPECT_THAT(detail.rings(0).hosts(), testing::ElementsAre("h0", "h1"));
  ASSERT_EQ(detail.lanes_size(), 2);
  EXPECT_EQ(detail.lanes(0).from(), "h0");
  EXPECT_EQ(detail.lanes(0).to(), "h1");
  EXPECT_EQ(detail.lanes(0).chosen_source_port(), ports[0]);
  EXPECT_EQ(detail.lanes(1).chosen_source_port(), ports[1]);
}

TEST_F(CoordinatorTest, ALaneThatIsNotTheRingsHasNoChosenPort) {
  Say(kFirst, Registration(MakeHost("h0")));
  Say(kSecond, Registration(MakeHost("h1")));
  const auto out = Say(kFirst, Announcement(MakeAnnounce(1, {"h0", "h1", "h2"})));
  Adopt(out);
  const strategy::ChannelStrategy& order = out[0].message->propose().strategy().channels(0);
  agent::FromAgent message = Reporting(1, 2);
  for (int hops : {1, 2}) {
    agent::Lane* lane = message.mutable_report()->add_lanes();
    lane->set_from(order.ring(0));
    lane->set_to(order.ring(hops));
  }
  Say(kFirst, message);
  const control::CommunicatorDetail detail = *Describe("0");
  ASSERT_EQ(detail.lanes_size(), 2);
  EXPECT_EQ(detail.lanes(0).chosen_source_port(), order.source_ports(0));
  EXPECT_EQ(detail.lanes(1).chosen_source_port(), 0u);
}

// By host: the rates of what it was told.
std::map<AgentKey, std::vector<uint64_t>> PacesIn(const std::vector<Outgoing>& out) {
  std::map<AgentKey, std::vector<uint64_t>> paces;
  for (const Outgoing& each : out) {
    if (!each.message.has_value() || !each.message->has_pace()) continue;
    std::vector<uint64_t>& rates = paces[each.to];
    for (const agent::LanePace& lane : each.message->pace().lanes())
      rates.push_back(lane.rate_bps());
  }
  return paces;
}

TEST_F(CoordinatorTest, ACapIsToldToAllHostsOfACommunicatorOnceAndToOneThatComesBack) {
  StartCommunicator();
  Tick();
  const auto set = [&](const std::string& cap) {
    coordinator_.SetObjects(std::make_shared<ObjectSet>(
        After({}, Together({TopologyDocument("t", "h[0-1]"), TenantDocument("a", 1000, cap)}))));
    return PacesIn(coordinator_.TakeOutbox());
  };
  const std::vector<uint64_t> rates = {5'000'000'000, 5'000'000'000};
  const std::map<AgentKey, std::vector<uint64_t>> both = {{kFirst, rates}, {kSecond, rates}};
  EXPECT_EQ(set("  cap: 5Gbps\n"), both);
  EXPECT_TRUE(set("  cap: 5Gbps\n").empty());
  const std::map<AgentKey, std::vector<uint64_t>> third = {{kThird, rates}};
  EXPECT_EQ(PacesIn(Say(kThird, Registration(MakeHost("h1")))), third);
  const std::map<AgentKey, std::vector<uint64_t>> lifted = {{kFirst, {}}, {kThird, {}}};
  EXPECT_EQ(set(""), lifted);
}

}  // namespace
}  // namespace mccs
