#include "algorithms/issue_order.h"

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace issue_order_test {

static_assert(std::is_trivially_copyable_v<IssueOrder>,
              "a cursor owns nothing, so it cannot allocate");

// Steps named a, b, c …, with these stages.
Program WithStages(const std::vector<uint16_t>& stages) {
  Program program;
  for (uint16_t stage : stages) {
    program.steps.emplace_back();
    program.steps.back().stage = stage;
  }
  return program;
}

std::string Walk(const Program& program, uint64_t rounds, uint32_t skew) {
  std::string text;
  IssueOrder order(program, rounds, skew);
  for (; !order.done(); order.Advance()) {
    const StepInstance next = order.current();
    text += (text.empty() ? "" : " ") + std::string(1, static_cast<char>('a' + next.step)) +
            std::to_string(next.round);
  }
  return text;
}

TEST(IssueOrder, InterleavesTheStagesOfAGroupOfRounds) {
  const Program program = WithStages({0, 1, 2});
  EXPECT_EQ(Walk(program, 4, 1), "a0 a1 b0 b1 c0 c1 a2 a3 b2 b3 c2 c3");
  EXPECT_EQ(Walk(program, 2, 0), "a0 b0 c0 a1 b1 c1");
}

TEST(IssueOrder, KeepsTheStepsOfOneStageTogether) {
  EXPECT_EQ(Walk(WithStages({0, 0, 1}), 2, 1), "a0 b0 a1 b1 c0 c1");
}

TEST(IssueOrder, TheLastGroupMayBeSmaller) {
  EXPECT_EQ(Walk(WithStages({0, 1}), 3, 1), "a0 a1 b0 b1 a2 b2");
  EXPECT_EQ(Walk(WithStages({0, 1}), 2, 100), "a0 a1 b0 b1");
}

TEST(IssueOrder, StagesMayBeginLateAndLeaveGaps) {
  EXPECT_EQ(Walk(WithStages({3, 7}), 2, 1), "a0 a1 b0 b1");
}

TEST(IssueOrder, NothingToDoEndsAtOnce) {
  EXPECT_EQ(Walk(WithStages({0, 1}), 0, 1), "");
  EXPECT_EQ(Walk(Program{}, 5, 1), "");
}

TEST(IssueOrder, NamesEveryStepOfEveryRoundOnce) {
  for (uint32_t skew : {0u, 1u, 2u, 5u}) {
    const Plan plan =
        BuildAll({.kind = OpKind::kAllReduce}, BlockLayout({2, 2, 2}), VariedOrders(3, 1))[0];
    const Program& program = plan.programs[0];
    constexpr uint64_t kRounds = 17;
    std::set<std::pair<uint64_t, uint16_t>> seen;
    IssueOrder order(program, kRounds, skew);
    for (; !order.done(); order.Advance()) {
      const StepInstance next = order.current();
      EXPECT_TRUE(seen.insert({next.round, next.step}).second);
      for (uint16_t before : program.steps[next.step].after)
        EXPECT_TRUE(seen.contains({next.round, before}));
    }
    EXPECT_EQ(seen.size(), kRounds * program.steps.size());
  }
}

}  // namespace issue_order_test
}  // namespace mccs
