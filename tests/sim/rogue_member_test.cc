// A tenant that implements a member of its communicator itself.
#include <gtest/gtest.h>

#include <limits>

#include "tests/sim/rogue_attack.h"

namespace mccs {
namespace rogue_member_test {

class RogueMember : public RoguePeerTest, public ::testing::WithParamInterface<Attack> {};

TEST_P(RogueMember, EndsOnlyItsCommunicatorWithAnError) {
  ASSERT_TRUE(rogue_.Join());
  Run(GetParam());
}

const Attack kMemberAttacks[] = {
    {"ReadyBeforeOpen", Stage::kLinked,
     [](const RoguePeer&) {
       // The leader sends open at once, so only the second ready is out of turn.
       return Messages(2, Ready());
     },
     "ready"},
    {"ReadyTwice", Stage::kActive, [](const RoguePeer&) { return Messages{Ready()}; }, "ready"},
    {"HelloTwice", Stage::kOpened,
     [](const RoguePeer& r) {
       return Messages{
           Message([&](auto& m) { m.mutable_hello()->set_host_index(r.self().value()); })};
     },
     "hello"},
    {"OpenToTheLeader", Stage::kOpened,
     [](const RoguePeer& r) { return Messages{Open(r.Ring(1))}; }, "open"},
    {"GoToTheLeader", Stage::kOpened, [](const RoguePeer&) { return Messages{Go()}; }, "go"},
    {"JoinWhenActive", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_join(); })}; }, "join"},
    {"EmptyMessage", Stage::kOpened, [](const RoguePeer&) { return Messages{peer::Message()}; },
     "empty message"},
    {"OrderOfAChangeByAMember", Stage::kActive,
     [](const RoguePeer& r) { return Messages{Prepare(WithOtherCosts(r, 2))}; },
     "strategy_change.prepare"},
    {"AnswerWithoutChange", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Answer(2, [](auto& answer) { answer.set_prepared(true); })};
     },
     "strategy_change_answer.prepared"},
    {"AnswerOfTheEpochInUse", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Answer(1, [](auto& answer) { answer.set_rejected("no"); })};
     },
     "strategy_change_answer.rejected"},
    {"AnswerOfTheLargestEpoch", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Answer(kMaxUint64, [](auto& answer) { answer.set_drained(true); })};
     },
     "strategy_change_answer.drained"},
    {"AnswerWithoutAStep", Stage::kActive,
     [](const RoguePeer&) { return Messages{Answer(1, [](auto&) {})}; }, "strategy_change_answer"},
    {"DepartureOfTheLeadersRank", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_departed()->set_rank(0); })};
     },
     "departed"},
    {"DepartureBeforeGo", Stage::kOpened,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_departed()->set_rank(1); })};
     },
     "departed"},
    {"OrderStartedUnasked", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_started()->set_operation(1); })};
     },
     "order_started"},
    {"OrderStartedWithTheLargestNumber", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_order_request(); }), Message([](auto& m) {
                         m.mutable_order_started()->set_operation(kMaxUint64);
                       })};
     },
     "order_started"},
    {"OrderNextByAMember", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_order_next(); })}; },
     "order_next"},
    {"HeldUpByAMember", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_stalled_on(); })}; },
     "stalled_on"},
    {"EnteredWithMoreRanksThanItHas", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) { m.mutable_stalled(); }), Message([](auto& m) {
                         m.mutable_entered()->set_request_id(1);
                         for (int i = 0; i < 1000; ++i) m.mutable_entered()->add_not_entered(1);
                       })};
     },
     "entered"},
    {"SplitForARankOfTheLeader", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_split_call()->set_number(1);
         m.mutable_split_call()->set_rank(0);
       })};
     },
     "split_call"},
    {"SplitForARankThatDoesNotExist", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_split_call()->set_number(1);
         m.mutable_split_call()->set_rank(std::numeric_limits<int32_t>::max());
       })};
     },
     "split_call"},
    {"SplitTwiceUnderOneNumber", Stage::kActive,
     [](const RoguePeer&) {
       return Messages(2, Message([](auto& m) {
                         m.mutable_split_call()->set_number(1);
                         m.mutable_split_call()->set_rank(1);
                       }));
     },
     "split_call"},
    {"SplitOutOfOrder", Stage::kActive,
     [](const RoguePeer&) {
       return Messages{Message([](auto& m) {
         m.mutable_split_call()->set_number(kMaxUint64);
         m.mutable_split_call()->set_rank(1);
       })};
     },
     "split_call"},
    {"SplitTableByAMember", Stage::kActive,
     [](const RoguePeer&) { return Messages{Message([](auto& m) { m.mutable_split_table(); })}; },
     "split_table"},
};

INSTANTIATE_TEST_SUITE_P(Sim, RogueMember, ::testing::ValuesIn(kMemberAttacks), NameOfCase);

}  // namespace rogue_member_test
}  // namespace mccs
