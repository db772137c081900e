// A tenant that implements the leader of its communicator itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/sim/rogue_attack.h"

namespace mccs {
namespace rogue_leader_test {

class RogueLeader : public RoguePeerTest, public ::testing::WithParamInterface<Attack> {};

TEST_P(RogueLeader, EndsOnlyItsCommunicatorWithAnError) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  Run(GetParam());
}

const Attack kLeaderAttacks[] = {
    // ---- Changes of strategy ----
    {"HoldAfterRefusal", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithForeignAddress(r, 2)), Hold(2)};
     },
     "strategy_change.hold"},
    {"CommitAfterRefusal", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithForeignAddress(r, 2)), Commit(2, 0)};
     },
     "strategy_change.commit"},
    {"MoveAfterRefusal", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy moved = WithForeignAddress(r, 2);
       moved.lanes = r.Ring(1).lanes;
       return Messages{Route(moved), Move(2)};
     },
     "strategy_change.move"},
    {"DoneAfterRefusal", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithForeignAddress(r, 2)), Done(2)};
     },
     "strategy_change.done"},
    {"HoldBeforeTheLanesAreOpen", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = r.Ring(2);
       strategy.lanes.slots = 8;
       return Messages{Prepare(strategy), Hold(2)};
     },
     "strategy_change.hold"},
    {"HoldTwice", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(2), Hold(2)};
     },
     "strategy_change.hold"},
    {"CommitBeforeHold", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Commit(2, 0)};
     },
     "strategy_change.commit"},
    {"CommitOfTheLargestNumber", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(2), Commit(2, kMaxUint64)};
     },
     "strategy_change.commit"},
    {"DoneBeforeCommit", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(2), Done(2)};
     },
     "strategy_change.done"},
    {"DoneTwice", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(2), Commit(2, 0), Done(2), Done(2)};
     },
     "strategy_change.done"},
    {"DroppedAfterHold", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(2), Dropped(2)};
     },
     "strategy_change.aborted"},
    {"DroppedWithoutAChange", Stage::kActive, [](const RoguePeer&) { return Messages{Dropped(1)}; },
     "strategy_change.aborted"},
    {"MoveOfChangeThatIsNotRoute", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Move(2)};
     },
     "strategy_change.move"},
    {"HoldOfARoute", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy moved = r.Ring(2);
       moved.channels[0].source_ports = {0, 0};
       return Messages{Route(moved), Hold(2)};
     },
     "strategy_change.hold"},
    {"RouteThatChangesMoreThanRoutes", Stage::kActive,
     [](const RoguePeer& r) { return Messages{Route(WithOtherCosts(r, 2))}; },
     "strategy_change.route"},
    {"PrepareTwice", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Prepare(WithOtherCosts(r, 3))};
     },
     "strategy_change.prepare"},
    {"PrepareOfTheEpochInUse", Stage::kActive,
     [](const RoguePeer& r) { return Messages{Prepare(WithOtherCosts(r, 1))}; },
     "strategy_change.prepare"},
    {"PrepareOfADroppedEpoch", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 3)), Dropped(3), Prepare(WithOtherCosts(r, 2))};
     },
     "strategy_change.prepare"},
    {"PrepareOfTwoEpochs", Stage::kActive,
     [](const RoguePeer& r) {
       peer::Message message = Prepare(WithOtherCosts(r, 2));
       message.mutable_strategy_change()->set_epoch(3);
       return Messages{message};
     },
     "strategy_change.prepare"},
    {"StepOfAnotherEpoch", Stage::kActive,
     [](const RoguePeer& r) {
       return Messages{Prepare(WithOtherCosts(r, 2)), Hold(3)};
     },
     "strategy_change.hold"},
    {"ChangeWithoutStep", Stage::kActive,
     [](const RoguePeer&) { return Messages{Change(2, [](auto&) {})}; }, "strategy_change"},
    {"PrepareBeforeGo", Stage::kOpened,
     [](const RoguePeer& r) { return Messages{Prepare(WithOtherCosts(r, 2))}; },
     "strategy_change.prepare"},
    {"PrepareWithARingOfOneHost", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.channels[0].ring.pop_back();
       return Messages{Prepare(strategy)};
     },
     "ring of channel 0"},
    {"PrepareWithAHostThatDoesNotExist", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.channels[0].ring[1] = HostIndex(std::numeric_limits<int32_t>::max());
       return Messages{Prepare(strategy)};
     },
     "ring of channel 0"},
    {"PrepareWithTooManyChannels", Stage::kActive,
     [](const RoguePeer& r) {
       peer::Message message = Prepare(WithOtherCosts(r, 2));
       auto* strategy = message.mutable_strategy_change()->mutable_prepare();
       while (strategy->channels_size() < 1000) *strategy->add_channels() = strategy->channels(0);
       return Messages{message};
     },
     "1000 channels"},
    {"PrepareWithHugeSlots", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.lanes = {.slots = ~0u, .slot_bytes = ~0u};
       return Messages{Prepare(strategy)};
     },
     "slots per lane"},
    {"PrepareWithNanCost", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = r.Ring(2);
       strategy.algorithms.costs.lane_bytes_per_us = std::numeric_limits<double>::quiet_NaN();
       return Messages{Prepare(strategy)};
     },
     "lane_bytes_per_us"},
    {"PrepareWithTooManyLanes", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.channels[0].other_lanes.resize(
           1000, {.from = HostIndex(0), .to = HostIndex(1), .source_port = 1});
       return Messages{Prepare(strategy)};
     },
     "other lanes"},
    {"PrepareWithTooLongOrigin", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.origin.assign(1 << 14, 'x');
       return Messages{Prepare(strategy)};
     },
     "origin"},
    {"PrepareWithAnOriginOfTwoLines", Stage::kActive,
     [](const RoguePeer& r) {
       Strategy strategy = WithOtherCosts(r, 2);
       strategy.origin = "fine\nE1122 mccsd: the disk is full";
       return Messages{Prepare(strategy)};
     },
     "origin"},
    {"AnswerToAMember", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Answer(1, [](auto& answer) { answer.set_prepared(true); })};
     },
     "strategy_change_answer"},
    // ---- Forming ----
    {"GoBeforeOpen", Stage::kLinked, [](const RoguePeer&) { return Messages{Go()}; }, "go"},
    {"OpenTwice", Stage::kOpened, [](const RoguePeer& r) { return Messages{Open(r.Ring(1))}; },
     "open"},
    {"OpenWhenActive", Stage::kActive, [](const RoguePeer& r) { return Messages{Open(r.Ring(2))}; },
     "open"},
    {"OpenWithoutAStrategy", Stage::kLinked,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_open(); })}; }, "open"},
    {"OpenWithAStrategyOfEpoch0", Stage::kLinked,
     [](const RoguePeer& r) { return Messages{Open(r.Ring(0))}; }, "epoch 0"},
    {"OpenFromAnAddressOfAnotherHost", Stage::kLinked,
     [](const RoguePeer& r) { return Messages{Open(WithForeignAddress(r, 1))}; }, "10.9.9.9"},
    {"GoBeforeReady", Stage::kLinked,
     [](const RoguePeer& r) {
       return Messages{Open(r.Ring(1)), Go()};
     },
     "go"},
    {"GoTwice", Stage::kActive, [](const RoguePeer&) { return Messages{Go()}; }, "go"},
    {"ReadyToAMember", Stage::kOpened, [](const RoguePeer&) { return Messages{Ready()}; }, "ready"},
    {"HelloToAMember", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_hello()->set_host_index(0); })};
     },
     "hello"},
    {"RosterWhenActive", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_roster(); })}; },
     "roster"},
    {"EmptyMessage", Stage::kActive, [](const RoguePeer&) { return Messages{peer::Message()}; },
     "empty message"},
    {"EmptyMessageBeforeOpen", Stage::kLinked,
     [](const RoguePeer&) { return Messages{peer::Message()}; }, "empty message"},
    // ---- Departures ----
    {"DepartureBeforeGo", Stage::kOpened,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_departed()->set_rank(0); })};
     },
     "departed"},
    {"DepartureOfARankOfTheVictim", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_departed()->set_rank(1); })};
     },
     "departed"},
    {"DepartureOfARankBelowZero", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_departed()->set_rank(-1); })};
     },
     "departed"},
    {"DepartureTwice", Stage::kActive,
     [](const RoguePeer&) {
       const peer::Message departed = Message([](auto& m) {
         m.mutable_departed()->set_rank(0);
         m.mutable_departed()->set_by_call(true);
       });
       return Messages{departed, departed};
     },
     "departed"},
    {"DepartureAfterTheLargestNumber", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_departed()->set_rank(0);
         m.mutable_departed()->set_after_operation(kMaxUint64);
       })};
     },
     "departed"},
    {"DepartureWithCountsOfRanksThatDoNotExist", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_departed()->set_rank(0);
         m.mutable_departed()->add_messages()->set_peer(2);
       })};
     },
     "departed"},
    {"DepartureWithMoreCountsThanRanks", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_departed()->set_rank(0);
         for (int i = 0; i < 1000; ++i) m.mutable_departed()->add_messages()->set_peer(1);
       })};
     },
     "departed"},
    {"TooLongMessage", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{
           Message([](auto& m) { m.mutable_failed()->set_message(std::string(1 << 20, 'x')); })};
     },
     "announces a message of"},
    // ---- The order of operations ----
    {"OrderBeginsUnasked", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_begins()->set_after(0); })};
     },
     "order_begins"},
    {"OrderAskedTwice", Stage::kActive,
     [](const RoguePeer&) { return Messages(2, Message([](auto& m) { m.mutable_order_hold(); })); },
     "order_hold"},
    {"OrderBeginsAfterTheLargestNumber", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_hold(); }),
                       Message([](auto& m) { m.mutable_order_begins()->set_after(kMaxUint64); })};
     },
     "order_begins"},
    {"OrderNextUnasked", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_next()->set_operation(1); })};
     },
     "order_next"},
    {"OrderNextOfNumber0", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_hold(); }),
                       Message([](auto& m) { m.mutable_order_begins()->set_after(0); }),
                       Message([](auto& m) { m.mutable_order_next()->set_operation(0); })};
     },
     "order_next"},
    {"OrderNextWithAGap", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_hold(); }),
                       Message([](auto& m) { m.mutable_order_begins()->set_after(0); }),
                       Message([](auto& m) { m.mutable_order_next()->set_operation(kMaxUint64); })};
     },
     "order_next"},
    {"OrderWantedByTheLeader", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_order_request(); })}; },
     "order_request"},
    {"OrderStartedByTheLeader", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_order_started(); })}; },
     "order_started"},
    // ---- Hangs ----
    {"StalledByTheLeader", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_stalled(); })}; },
     "stalled"},
    {"EnteredByTheLeader", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_entered(); })}; },
     "entered"},
    // ---- Splits ----
    {"SplitTableUnasked", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_split_table()->set_number(1);
         for (int r : {0, 1}) {
           m.mutable_split_table()->add_colors(0);
           m.mutable_split_table()->add_keys(r);
         }
       })};
     },
     "split_table"},
    {"SplitTableWithTooFewColors", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_split_table()->set_number(1); })};
     },
     "split_table"},
    {"SplitCallByTheLeader", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_split_call(); })}; },
     "split_call"},
};

INSTANTIATE_TEST_SUITE_P(Sim, RogueLeader, ::testing::ValuesIn(kLeaderAttacks), NameOfCase);

// Regression: the daemon adopted lanes that it had refused to open, and aborted.
TEST_F(RoguePeerTest, LeaderThatContinuesARejectedChangeEndsOnlyItsCommunicator) {
  ASSERT_TRUE(rogue_.StartAsLeader());
  ASSERT_NO_FATAL_FAILURE(Reach(Stage::kActive));
  rogue_.Send(Prepare(WithForeignAddress(rogue_, 2)));
  ASSERT_TRUE(rogue_.HasReceived(&peer::Message::has_strategy_change_answer));
  EXPECT_THAT(rogue_.received().back().strategy_change_answer().rejected(),
              ::testing::HasSubstr("10.9.9.9"));
  rogue_.Send(Hold(2));
  rogue_.Send(Commit(2, 0));
  EXPECT_THAT(rogue_.failure(),
              ::testing::HasSubstr("host rogue sent strategy_change.hold: unexpected order"));
  EXPECT_THAT(rogue_.failure(), ::testing::HasSubstr("in state refused"));
}

}  // namespace rogue_leader_test
}  // namespace mccs
