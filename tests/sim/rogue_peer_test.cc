// Sequences of protocol messages that no daemon sends, from a tenant that implements the leader or
// a member of its communicator itself. Each attack ends that communicator with an error that names
// the host and the message; the daemon and its other tenant continue.
#include "tests/sim/rogue_peer.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "service/transport/stream_lane.h"
#include "tests/sim/sim_job.h"

namespace mccs {
namespace rogue_peer_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

enum class Stage { kLinked, kOpened, kActive };

struct Attack {
  const char* name;
  Stage stage;
  std::vector<peer::Message> messages;
  const char* error;  // part of the error message that the tenant gets
};

// The case's name in gtest.
void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }
std::string NameOfCase(const testing::TestParamInfo<Attack>& info) { return info.param.name; }

// A message in protobuf's text format.
peer::Message Text(const std::string& text) {
  peer::Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// ---- Strategies, and steps of their changes -----------------------------------------------------

Strategy With(Strategy strategy, const std::function<void(Strategy&)>& change) {
  change(strategy);
  return strategy;
}
Strategy Ring(uint64_t epoch) {
  return MakeRingStrategy(Epoch(epoch), {HostIndex(0), HostIndex(1)});
}
// A strategy without new lanes: only the choice of algorithms differs.
Strategy OtherCosts(uint64_t epoch) {
  return With(Ring(epoch),
              [&](auto& s) { s.algorithms.costs.hop_us += static_cast<double>(epoch); });
}
// A strategy with new lanes, which leave the victim from another host's address. The rogue leads.
Strategy ForeignAddress(uint64_t epoch) {
  return With(Ring(epoch), [](auto& s) {
    s.lanes.slots = 8;
    s.channels[0].addresses = {RoguePeer::kAddress, "10.9.9.9"};
  });
}

peer::Message Open(const Strategy& strategy) { return OpenWith(strategy); }
// Of a strategy that no host sends.
peer::Message NoticeOfNothing() {
  peer::Message message;
  message.mutable_open_notice()->set_hash(std::string(wire::kProofBytes, 'x'));
  return message;
}
peer::Message Change(uint64_t epoch, const std::string& step) {
  return Text(absl::StrCat("strategy_change { epoch: ", epoch, " ", step, " }"));
}
peer::Message Prepare(const Strategy& strategy) {
  peer::Message message = Change(strategy.epoch.value(), "");
  ToProto(strategy, message.mutable_strategy_change()->mutable_prepare());
  return message;
}
peer::Message Route(const Strategy& strategy) {
  peer::Message message = Change(strategy.epoch.value(), "");
  ToProto(strategy, message.mutable_strategy_change()->mutable_route());
  return message;
}
peer::Message Hold(uint64_t epoch) { return Change(epoch, "hold: true"); }
peer::Message Commit(uint64_t epoch, uint64_t after) {
  return Change(epoch, absl::StrCat("commit { after: ", after, " }"));
}
peer::Message Done(uint64_t epoch) { return Change(epoch, "done: true"); }
peer::Message Move(uint64_t epoch) { return Change(epoch, "move: true"); }
peer::Message Dropped(uint64_t epoch) { return Change(epoch, "aborted: 'no reason'"); }
peer::Message Answer(uint64_t epoch, const std::string& step) {
  return Text(absl::StrCat("strategy_change_answer { epoch: ", epoch, " ", step, " }"));
}

// A world with a victim of the rogue peer, and a neighbor on the same host.
class RoguePeerTest : public testing::Test {
 protected:
  RoguePeerTest() { EXPECT_TRUE(neighbor_.Form()); }
  ~RoguePeerTest() override { EXPECT_EQ(neighbor_.Run(OpKind::kAllReduce, 500), ""); }

  void Reach(Stage stage) {
    if (stage == Stage::kLinked && !rogue_.leads()) {
      rogue_.Send(Text(absl::StrCat("hello { host_index: ", rogue_.self().value(), " }")));
    }
    if (stage == Stage::kLinked) return;
    ASSERT_TRUE(rogue_.OpenLanes()) << rogue_.failure();
    if (stage != Stage::kActive) return;
    ASSERT_TRUE(rogue_.Start()) << rogue_.failure();
  }
  void Run(const Attack& attack) {
    ASSERT_NO_FATAL_FAILURE(Reach(attack.stage));
    ASSERT_EQ(rogue_.failure(), "");
    for (const peer::Message& message : attack.messages) {
      EXPECT_EQ(rogue_.failure(), "") << "before " << message.ShortDebugString();
      rogue_.Send(message);
    }
    // Well before any timeout: the message itself must fail the communicator.
    ASSERT_TRUE(rogue_.RunUntil([&] { return !rogue_.failure().empty(); }, 100 * kNsPerMs));
    EXPECT_THAT(rogue_.failure(), AllOf(HasSubstr(RoguePeer::kName), HasSubstr(attack.error)));
  }

  SimWorld world_{{.seed = 7}};
  SimJob neighbor_{world_, {0, 1}, 4096};
  SimTenant& victim_ = world_.AddTenant(0, RoguePeer::kTenant);
  RoguePeer rogue_{world_, victim_};
};

// ---- The leader ---------------------------------------------------------------------------------

class RogueLeader : public RoguePeerTest, public testing::WithParamInterface<Attack> {};

TEST_P(RogueLeader, EndsOnlyItsCommunicatorWithAnError) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  Run(GetParam());
}

std::vector<Attack> AttacksByChanges() {
  const peer::Message rejected = Prepare(ForeignAddress(2)), accepted = Prepare(OtherCosts(2));
  const auto prepare = [](const std::function<void(Strategy&)>& change) {
    return std::vector{Prepare(With(OtherCosts(2), change))};
  };
  const Strategy foreign_route = With(ForeignAddress(2), [](auto& s) { s.lanes = Ring(1).lanes; });
  const Strategy route = With(Ring(2), [](auto& s) { s.channels[0].source_ports = {0, 0}; });
  peer::Message two_epochs = accepted;
  two_epochs.mutable_strategy_change()->set_epoch(3);
  peer::Message many_channels = accepted;
  auto* channels = many_channels.mutable_strategy_change()->mutable_prepare()->mutable_channels();
  while (channels->size() < 1000) *channels->Add() = channels->Get(0);
  constexpr Stage kActive = Stage::kActive;
  return {
      {"HoldAfterRejection", kActive, {rejected, Hold(2)}, "strategy_change.hold"},
      {"CommitAfterRejection", kActive, {rejected, Commit(2, 0)}, "strategy_change.commit"},
      {"MoveAfterRejection", kActive, {Route(foreign_route), Move(2)}, "strategy_change.move"},
      {"DoneAfterRejection", kActive, {rejected, Done(2)}, "strategy_change.done"},
      {"HoldBeforeTheLanesAreOpen",
       kActive,
       {Prepare(With(Ring(2), [](auto& s) { s.lanes.slots = 8; })), Hold(2)},
       "strategy_change.hold"},
      {"HoldTwice", kActive, {accepted, Hold(2), Hold(2)}, "strategy_change.hold"},
      {"CommitBeforeHold", kActive, {accepted, Commit(2, 0)}, "strategy_change.commit"},
      {"CommitOfTheLargestNumber",
       kActive,
       {accepted, Hold(2), Commit(2, kMaxUint64)},
       "strategy_change.commit"},
      {"DoneBeforeCommit", kActive, {accepted, Hold(2), Done(2)}, "strategy_change.done"},
      {"DoneTwice",
       kActive,
       {accepted, Hold(2), Commit(2, 0), Done(2), Done(2)},
       "strategy_change.done"},
      {"DroppedAfterHold", kActive, {accepted, Hold(2), Dropped(2)}, "strategy_change.aborted"},
      {"DroppedWithoutAChange", kActive, {Dropped(1)}, "strategy_change.aborted"},
      {"MoveOfChangeThatIsNotRoute", kActive, {accepted, Move(2)}, "strategy_change.move"},
      {"HoldOfARoute", kActive, {Route(route), Hold(2)}, "strategy_change.hold"},
      {"RouteThatChangesMoreThanRoutes", kActive, {Route(OtherCosts(2))}, "strategy_change.route"},
      {"PrepareTwice", kActive, {accepted, Prepare(OtherCosts(3))}, "strategy_change.prepare"},
      {"PrepareOfTheEpochInUse", kActive, {Prepare(OtherCosts(1))}, "strategy_change.prepare"},
      {"PrepareOfADroppedEpoch",
       kActive,
       {Prepare(OtherCosts(3)), Dropped(3), accepted},
       "strategy_change.prepare"},
      {"PrepareOfTwoEpochs", kActive, {two_epochs}, "strategy_change.prepare"},
      {"StepOfAnotherEpoch", kActive, {accepted, Hold(3)}, "strategy_change.hold"},
      {"ChangeWithoutStep", kActive, {Change(2, "")}, "strategy_change"},
      {"PrepareBeforeGo", Stage::kOpened, {accepted}, "strategy_change.prepare"},
      {"PrepareWithARingOfOneHost", kActive,
       prepare([](auto& s) { s.channels[0].ring.pop_back(); }), "ring of channel 0"},
      {"PrepareWithAHostThatDoesNotExist", kActive, prepare([](auto& s) {
         s.channels[0].ring[1] = HostIndex(std::numeric_limits<int32_t>::max());
       }),
       "ring of channel 0"},
      {"PrepareWithTooManyChannels", kActive, {many_channels}, "1000 channels"},
      {"PrepareWithHugeSlots", kActive,
       prepare([](auto& s) { s.lanes = {.slots = ~0u, .slot_bytes = ~0u}; }), "slots per lane"},
      {"PrepareWithNanCost", kActive, prepare([](auto& s) {
         s = Ring(2);
         s.algorithms.costs.lane_bytes_per_us = std::numeric_limits<double>::quiet_NaN();
       }),
       "lane_bytes_per_us"},
      {"PrepareWithTooManyLanes", kActive, prepare([](auto& s) {
         s.channels[0].other_lanes.resize(
             1000, {.from = HostIndex(0), .to = HostIndex(1), .source_port = 1});
       }),
       "lanes outside the ring"},
      {"PrepareWithTooLongOrigin", kActive, prepare([](auto& s) { s.origin.assign(1 << 14, 'x'); }),
       "origin"},
      {"PrepareWithAnOriginOfTwoLines", kActive,
       prepare([](auto& s) { s.origin = "fine\nE1122 mccsd: the disk is full"; }), "origin"},
      {"AnswerToAMember", kActive, {Answer(1, "prepared: true")}, "strategy_change_answer"},
  };
}
INSTANTIATE_TEST_SUITE_P(Changes, RogueLeader, testing::ValuesIn(AttacksByChanges()), NameOfCase);

std::vector<Attack> AttacksWhileForming() {
  constexpr Stage kLinked = Stage::kLinked, kOpened = Stage::kOpened, kActive = Stage::kActive;
  const peer::Message notice = NoticeOfNothing();
  return {
      {"GoBeforeOpen", kLinked, {Text("go {}")}, "go"},
      {"OpenTwice", kOpened, {Open(Ring(1))}, "open"},
      {"OpenWhenActive", kActive, {Open(Ring(2))}, "open"},
      {"OpenWithoutAStrategy", kLinked, {Text("open {}")}, "open"},
      {"OpenWithAStrategyOfEpoch0", kLinked, {Open(Ring(0))}, "epoch 0"},
      {"OpenFromAnAddressOfAnotherHost", kLinked, {Open(ForeignAddress(1))}, "10.9.9.9"},
      {"OpenNoticeWithAShortHash", kLinked, {Text("open_notice { hash: 'short' }")}, "open_notice"},
      {"OpenNoticeTwice", kLinked, {notice, notice}, "open_notice"},
      {"OpenNoticeAfterOpen", kOpened, {notice}, "open_notice"},
      {"OpenRequestByTheLeader", kLinked, {Text("open_request {}")}, "open_request"},
      {"GoBeforeReady", kLinked, {Open(Ring(1)), Text("go {}")}, "go"},
      {"GoTwice", kActive, {Text("go {}")}, "go"},
      {"ReadyToAMember", kOpened, {Text("ready {}")}, "ready"},
      {"HelloToAMember", kActive, {Text("hello { host_index: 0 }")}, "hello"},
      {"RosterWhenActive", kActive, {Text("roster: ''")}, "roster"},
      {"EmptyMessage", kActive, {Text("")}, "empty message"},
      {"EmptyMessageBeforeOpen", kLinked, {Text("")}, "empty message"},
  };
}
INSTANTIATE_TEST_SUITE_P(Forming, RogueLeader, testing::ValuesIn(AttacksWhileForming()),
                         NameOfCase);

std::vector<Attack> AttacksOfALeader() {
  constexpr Stage kActive = Stage::kActive;
  const peer::Message departed = Text("departed { rank: 0 by_call: true }");
  peer::Message many_counts = Text("departed { rank: 0 }");
  for (int i = 0; i < 1000; ++i) many_counts.mutable_departed()->add_messages()->set_peer(1);
  peer::Message too_long;
  too_long.mutable_failed()->set_message(std::string(1 << 20, 'x'));
  const peer::Message hold = Text("order_hold {}"), begins = Text("order_begins { after: 0 }");
  return {
      {"DepartureBeforeOpen", Stage::kLinked, {Text("departed { rank: 0x40000000 }")}, "departed"},
      {"DepartureBeforeGo", Stage::kOpened, {Text("departed { rank: 0 }")}, "departed"},
      {"DepartureOfARankOfTheVictim", kActive, {Text("departed { rank: 1 }")}, "departed"},
      {"DepartureOfARankBelowZero", kActive, {Text("departed { rank: -1 }")}, "departed"},
      {"DepartureTwice", kActive, {departed, departed}, "departed"},
      {"DepartureAfterTheLargestNumber",
       kActive,
       {Text("departed { rank: 0 after_operation: 0xffffffffffffffff }")},
       "departed"},
      {"DepartureWithCountsOfRanksThatDoNotExist",
       kActive,
       {Text("departed { rank: 0 messages { peer: 2 } }")},
       "departed"},
      {"DepartureWithMoreCountsThanRanks", kActive, {many_counts}, "departed"},
      {"TooLongMessage", kActive, {too_long}, "announces a message of"},
      {"OrderBeginsUnasked", kActive, {begins}, "order_begins"},
      {"OrderAskedTwice", kActive, {hold, hold}, "order_hold"},
      {"OrderBeginsAfterTheLargestNumber",
       kActive,
       {hold, Text("order_begins { after: 0xffffffffffffffff }")},
       "order_begins"},
      {"OrderNextUnasked", kActive, {Text("order_next { operation: 1 }")}, "order_next"},
      {"OrderNextOfNumber0",
       kActive,
       {hold, begins, Text("order_next { operation: 0 }")},
       "order_next"},
      {"OrderNextWithAGap",
       kActive,
       {hold, begins, Text("order_next { operation: 0xffffffffffffffff }")},
       "order_next"},
      {"OrderWantedByTheLeader", kActive, {Text("order_request {}")}, "order_request"},
      {"OrderStartedByTheLeader", kActive, {Text("order_started {}")}, "order_started"},
      {"StalledByTheLeader", kActive, {Text("stalled {}")}, "stalled"},
      {"EnteredByTheLeader", kActive, {Text("entered {}")}, "entered"},
      {"SplitTableUnasked",
       kActive,
       {Text("split_table { number: 1 colors: [0, 0] keys: [0, 1] }")},
       "split_table"},
      {"SplitTableWithTooFewColors", kActive, {Text("split_table { number: 1 }")}, "split_table"},
      {"SplitCallByTheLeader", kActive, {Text("split_call {}")}, "split_call"},
  };
}
INSTANTIATE_TEST_SUITE_P(Running, RogueLeader, testing::ValuesIn(AttacksOfALeader()), NameOfCase);

// Regression: the daemon adopted lanes that it had rejected, and aborted.
TEST_F(RoguePeerTest, LeaderThatContinuesARejectedChangeEndsOnlyItsCommunicator) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  ASSERT_NO_FATAL_FAILURE(Reach(Stage::kActive));
  rogue_.Send(Prepare(ForeignAddress(2)));
  ASSERT_TRUE(rogue_.HasReceived(&peer::Message::has_strategy_change_answer));
  EXPECT_THAT(rogue_.received().back().strategy_change_answer().rejected(), HasSubstr("10.9.9.9"));
  rogue_.Send(Hold(2));
  rogue_.Send(Commit(2, 0));
  EXPECT_THAT(rogue_.failure(), HasSubstr("host rogue sent strategy_change.hold: unexpected step"));
  EXPECT_THAT(rogue_.failure(), HasSubstr("in state rejected"));
}

TEST_F(RoguePeerTest, LeaderThatWithholdsTheStrategyEndsItsCommunicatorAfterATimeout) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  rogue_.Send(NoticeOfNothing());
  const auto failed = [&] { return !rogue_.failure().empty(); };
  EXPECT_FALSE(rogue_.RunUntil(failed, kStrategyRequestTimeoutNs));
  EXPECT_TRUE(rogue_.RunUntil(failed, kRelayTimeoutNs + kNsPerSec));
  EXPECT_THAT(rogue_.failure(), HasSubstr("has sent the strategy"));
  EXPECT_TRUE(rogue_.HasReceived(&peer::Message::has_open_request));
}

// It is linked, so no firewall blocks it.
TEST_F(RoguePeerTest, LeaderThatSendsNoStrategyIsNamedInTheError) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  EXPECT_TRUE(rogue_.RunUntil([&] { return !rogue_.failure().empty(); },
                              kStrategyRequestTimeoutNs + kNsPerSec));
  EXPECT_THAT(rogue_.failure(), HasSubstr("waiting for the strategy of the leader, host rogue"));
}

// ---- A member -----------------------------------------------------------------------------------

class RogueMember : public RoguePeerTest, public testing::WithParamInterface<Attack> {};

TEST_P(RogueMember, EndsOnlyItsCommunicatorWithAnError) {
  ASSERT_TRUE(rogue_.Join());
  ASSERT_EQ(rogue_.self(), HostIndex(1));
  Run(GetParam());
}

std::vector<Attack> AttacksOfAMember() {
  constexpr Stage kOpened = Stage::kOpened, kActive = Stage::kActive;
  const peer::Message split = Text("split_call { number: 1 rank: 1 }");
  peer::Message entered = Text("entered { request_id: 1 }");
  for (int i = 0; i < 1000; ++i) entered.mutable_entered()->add_not_entered(1);
  return {
      // The leader sends open at once, so only the second ready is out of turn.
      {"ReadyBeforeOpen", Stage::kLinked, {Text("ready {}"), Text("ready {}")}, "ready"},
      {"ReadyTwice", kActive, {Text("ready {}")}, "ready"},
      {"HelloTwice", kOpened, {Text("hello { host_index: 1 }")}, "hello"},
      {"OpenToTheLeader", kOpened, {Open(Ring(1))}, "open"},
      {"OpenRequestOfWhatWasSent", kOpened, {Text("open_request {}")}, "open_request"},
      {"OpenRequestWhenActive", kActive, {Text("open_request {}")}, "open_request"},
      {"GoToTheLeader", kOpened, {Text("go {}")}, "go"},
      {"JoinWhenActive", kActive, {Text("join {}")}, "join"},
      {"EmptyMessage", kOpened, {Text("")}, "empty message"},
      {"OrderOfAChangeByAMember", kActive, {Prepare(OtherCosts(2))}, "strategy_change.prepare"},
      {"AnswerWithoutChange",
       kActive,
       {Answer(2, "prepared: true")},
       "strategy_change_answer.prepared"},
      {"AnswerOfTheEpochInUse",
       kActive,
       {Answer(1, "rejected: 'no'")},
       "strategy_change_answer.rejected"},
      {"AnswerOfTheLargestEpoch",
       kActive,
       {Answer(kMaxUint64, "drained: true")},
       "strategy_change_answer.drained"},
      {"AnswerWithoutAStep", kActive, {Answer(1, "")}, "strategy_change_answer"},
      {"DepartureOfTheLeadersRank", kActive, {Text("departed { rank: 0 }")}, "departed"},
      {"DepartureBeforeGo", kOpened, {Text("departed { rank: 1 }")}, "departed"},
      {"OrderStartedUnasked", kActive, {Text("order_started { operation: 1 }")}, "order_started"},
      {"OrderStartedWithTheLargestNumber",
       kActive,
       {Text("order_request {}"), Text("order_started { operation: 0xffffffffffffffff }")},
       "order_started"},
      {"OrderNextByAMember", kActive, {Text("order_next {}")}, "order_next"},
      {"HeldUpByAMember", kActive, {Text("stalled_on {}")}, "stalled_on"},
      {"EnteredWithMoreRanksThanItHas", kActive, {Text("stalled {}"), entered}, "entered"},
      {"SplitForARankOfTheLeader",
       kActive,
       {Text("split_call { number: 1 rank: 0 }")},
       "split_call"},
      {"SplitForARankThatDoesNotExist",
       kActive,
       {Text("split_call { number: 1 rank: 0x7fffffff }")},
       "split_call"},
      {"SplitTwiceUnderOneNumber", kActive, {split, split}, "split_call"},
      {"SplitOutOfOrder",
       kActive,
       {Text("split_call { number: 0xffffffffffffffff rank: 1 }")},
       "split_call"},
      {"SplitTableByAMember", kActive, {Text("split_table {}")}, "split_table"},
  };
}
INSTANTIATE_TEST_SUITE_P(Sim, RogueMember, testing::ValuesIn(AttacksOfAMember()), NameOfCase);

// ---- Lanes --------------------------------------------------------------------------------------

// A tenant that opens lanes of its communicator itself: for epochs and channels that do not exist,
// or with invalid content.
class RogueLanes : public RoguePeerTest {
 protected:
  RogueLanes() {
    EXPECT_TRUE(rogue_.StartAsLeader());
    Reach(Stage::kActive);
  }
  // Writes the bytes and expects the failure of the communicator.
  void ExpectViolation(Connection& connection, std::string bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    const auto written = connection.Write({&piece, 1});
    ASSERT_TRUE(written.ok() && *written == bytes.size());
    ASSERT_TRUE(rogue_.RunUntil([&] { return !rogue_.failure().empty(); }, kNsPerSec));
    EXPECT_THAT(rogue_.failure(), AllOf(HasSubstr(RoguePeer::kAddress), HasSubstr("channel 0"),
                                        HasSubstr("violated the lane protocol")));
  }
};

TEST_F(RogueLanes, GarbageInsteadOfSliceEndsTheCommunicator) {
  ExpectViolation(rogue_.out(), std::string(64, 'x'));
}

TEST_F(RogueLanes, AcknowledgementOfUnsentSlicesEndsTheCommunicator) {
  ASSERT_NE(rogue_.in(), nullptr);
  const wire::AckFrame frame{.magic = wire::kResumeMagic,
                             .slots = RoguePeer::kShape.slots,
                             .slot_bytes = RoguePeer::kShape.slot_bytes,
                             .reserved = 0,
                             .delivered = std::numeric_limits<uint64_t>::max(),
                             .credit = std::numeric_limits<uint64_t>::max()};
  ExpectViolation(*rogue_.in(), std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)));
}

// Only the connection ends.
TEST_F(RogueLanes, ClosesLaneOfUnknownEpochOrChannel) {
  const std::vector<std::pair<uint64_t, int>> places = {
      {1, 1}, {1, 31}, {1, 32}, {1, 33}, {1, 1 << 30}, {0, 0}, {0, 31}, {0, 2 * kMaxChannels}};
  for (const auto& [epoch, channel] : places) {
    SCOPED_TRACE(testing::Message() << "epoch " << epoch << " channel " << channel);
    ASSERT_TRUE(rogue_.OpenLane(epoch, channel));
    EXPECT_TRUE(rogue_.RunUntil([&] {
      std::byte byte;
      const iovec piece{&byte, 1};
      return rogue_.out().readable() && !rogue_.out().Read({&piece, 1}).ok();
    })) << "the lane stays open";
    EXPECT_EQ(rogue_.failure(), "");
  }
  EXPECT_FALSE(rogue_.OpenLane(std::numeric_limits<uint64_t>::max()))
      << "an epoch that is never used";
  EXPECT_EQ(rogue_.failure(), "");
}

}  // namespace rogue_peer_test
}  // namespace mccs
