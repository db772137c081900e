#include "algorithms/program_lanes.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "algorithms/issue_order.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace program_lanes_test {

std::vector<Program> VariedPrograms() {
  std::vector<Program> programs;
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kAllToAll}) {
    for (const Plan& plan : BuildAll({.kind = kind, .algorithm = UsualAlgorithm(kind)},
                                     BlockLayout({2, 1, 3, 1}), VariedOrders(4, 2))) {
      programs.insert(programs.end(), plan.programs.begin(), plan.programs.end());
    }
  }
  return programs;
}

TEST(ProgramLanes, NumberSlicesAsIssueOrderCountsThem) {
  for (const Program& program : VariedPrograms()) {
    const ProgramLanes lanes = LanesOf(program);
    for (const uint32_t skew : {0u, 1u, 2u, 5u}) {
      for (const uint64_t rounds : {1u, 2u, 7u, 12u}) {
        std::map<std::pair<StepKind, HostIndex>, uint64_t> counts;
        for (IssueOrder order(program, rounds, skew); !order.done(); order.Advance()) {
          const auto [round, step_index] = order.current();
          const Step& step = program.steps[step_index];
          if (step.kind == StepKind::kCombine) continue;
          const ProgramLanes::Position& position = lanes.positions[step_index];
          const ProgramLanes::Lane& lane = step.kind == StepKind::kSend
                                               ? lanes.sends[position.lane]
                                               : lanes.receives[position.lane];
          ASSERT_EQ(lane.peer, step.peer);
          ASSERT_EQ(SliceIndex(position, lane.steps.size(), GroupOf(round, rounds, skew), round),
                    (counts[{step.kind, step.peer}]++))
              << "step " << step_index << ", round " << round << " of " << rounds << ", skew "
              << skew;
        }
      }
    }
  }
}

TEST(ProgramLanes, OrderOfOneLaneIsThatOfTheProgram) {
  for (const Program& program : VariedPrograms()) {
    const ProgramLanes lanes = LanesOf(program);
    for (const ProgramLanes::Lane& lane : lanes.receives) {
      IssueOrder own(program, lane.steps, 7, 2);
      for (IssueOrder all(program, 7, 2); !all.done(); all.Advance()) {
        const Step& step = program.steps[all.current().step];
        if (step.kind != StepKind::kReceive || step.peer != lane.peer) continue;
        ASSERT_FALSE(own.done());
        EXPECT_EQ(own.current().round, all.current().round);
        EXPECT_EQ(own.current().step, all.current().step);
        own.Advance();
      }
      EXPECT_TRUE(own.done());
    }
  }
}

}  // namespace program_lanes_test
}  // namespace mccs
