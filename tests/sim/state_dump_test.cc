// The state that a daemon reports when an operator asks, while jobs run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace state_dump_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kCount = 100'000;

state::Daemon RequestDump(SimWorld& world, int host) {
  SimController& controller = world.host(host).controller();
  const uint64_t request_id = controller.answers.size() + 1;
  controller.questions.push_back(request_id);
  EXPECT_TRUE(world.RunUntil([&] { return controller.answers.contains(request_id); }));
  return controller.answers[request_id];
}

TEST(SimStateDump, EachHostShowsItsOperationAndMissingRanks) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2}, {0, 1, 1}, 1 << 20);
  job.Fill(kCount);
  job.PostAll(OpKind::kAllReduce, kCount);
  ASSERT_TRUE(job.Complete());
  job.Post(0, OpKind::kBroadcast, kCount);
  job.Post(1, OpKind::kBroadcast, kCount);
  world.RunFor(kNsPerMs);
  const state::Daemon first = RequestDump(world, 0), second = RequestDump(world, 1);
  EXPECT_FALSE(first.host().empty());
  ASSERT_EQ(first.communicators_size(), 1);
  const state::Communicator& here = first.communicators(0);
  EXPECT_EQ(here.id(), FormatCommId(world.host(0).controller().announced.front()));
  EXPECT_EQ(here.tenant(), "uid 1000");
  EXPECT_EQ(here.state(), "active");
  EXPECT_TRUE(here.leads());
  EXPECT_THAT(here.ranks(), ElementsAre(0));
  EXPECT_EQ(here.operations(), 1u);
  EXPECT_EQ(here.work(0).kind(), "all_reduce");
  EXPECT_EQ(here.work(0).bytes(), kCount * sizeof(float));
  EXPECT_EQ(here.operation().number(), 2u);
  EXPECT_EQ(here.operation().state(), "running");
  EXPECT_THAT(here.operation().call(), HasSubstr("broadcast"));
  EXPECT_GT(here.turns(), 0u);
  const state::Communicator& there = second.communicators(0);
  EXPECT_FALSE(there.leads());
  EXPECT_THAT(there.ranks(), ElementsAre(1, 2));
  EXPECT_EQ(there.operation().state(), "waiting for ranks");
  EXPECT_THAT(there.operation().not_entered(), ElementsAre(2));

  ASSERT_EQ(second.sessions_size(), 2);
  EXPECT_EQ(second.sessions(0).state(), "open");
  EXPECT_EQ(second.sessions(0).buffers(), 2u);
  EXPECT_GE(second.sessions(0).buffer_bytes(), 2u << 20);
  EXPECT_EQ(second.sessions(0).ranks(0).rank(), 1);
  EXPECT_EQ(second.sessions(0).ranks(0).communicator(), here.id());
  EXPECT_EQ(second.sessions(0).ranks(0).records_posted(), 2u);

  // Both ends of the lane from host 0, which waits for credit of the other end.
  const auto lane = [](const state::Communicator& of, const std::string& direction) {
    for (const state::Lane& lane : of.lanes()) {
      if (lane.lanes() == "current" && lane.direction() == direction) return lane;
    }
    return state::Lane();
  };
  const state::Lane out = lane(here, "out"), in = lane(there, "in");
  EXPECT_EQ(out.state(), "up");
  EXPECT_GT(out.next(), 0u);
  EXPECT_EQ(out.credit(), 0u) << "all slots of the other end are in use";
  EXPECT_EQ(out.next(), in.next());
  EXPECT_EQ(out.acknowledged(), in.next()) << "all slices are delivered";
  EXPECT_EQ(in.credit(), 0u);
}

TEST(SimStateDump, ShowsARunningChange) {
  auto [world, job] = JobWorld({.seed = 2, .hosts = 2}, {0, 1}, 1 << 20);
  EXPECT_EQ(RequestDump(world, 0).communicators(0).change(), "");
  SimController& controller = world.host(0).controller();
  const Strategy next = MakeRingStrategy(Epoch(6), {HostIndex(1), HostIndex(0)}, 3);
  controller.proposals.push_back({controller.announced.front(), next});
  controller.questions.push_back(100);
  ASSERT_TRUE(world.RunUntil([&] { return controller.answers.contains(100); }));
  EXPECT_THAT(controller.answers[100].communicators(0).change(), HasSubstr("to epoch 6: "));
  world.RunFor(kNsPerSec);
  const state::Daemon after = RequestDump(world, 0);
  EXPECT_EQ(after.communicators(0).change(), "");
  EXPECT_EQ(after.communicators(0).epoch(), 6u);
  EXPECT_EQ(after.communicators(0).strategy(), "the test");
  EXPECT_EQ(after.communicators(0).rings_size(), 3);
}

// A process may have thousands of ranks.
TEST(SimStateDump, SpreadsTheRanksOfASessionOverTurns) {
  SimWorld world({.seed = 4, .hosts = 1});
  constexpr int kRanks = 2 * StateDump::kPartsPerTurn * Session::kRanksPerStatePart + 1;
  RawTenant tenant(world, 0, {"blue", 500});
  ASSERT_TRUE(tenant.Greet());
  for (int i = 0; i < kRanks; ++i) {
    const auto id = tenant.GetUniqueId();
    ASSERT_TRUE(id.has_value());
    tenant.Send(MakeCommInit(*id, kRanks, i));
  }
  ASSERT_TRUE(tenant.GetUniqueId().has_value()) << "all have been handled";
  SimController& controller = world.host(0).controller();
  controller.questions.push_back(1);
  for (int turn = 0; turn < 2; ++turn) world.host(0).daemon().Poll();
  EXPECT_TRUE(controller.answers.empty()) << "a turn adds a limited number of ranks";
  EXPECT_TRUE(world.RunUntil([&] { return controller.answers.contains(1); }));
  const state::Daemon& state = controller.answers[1];
  ASSERT_EQ(state.sessions_size(), 1);
  ASSERT_EQ(state.sessions(0).ranks_size(), kRanks);
  for (int i = 0; i < kRanks; ++i) EXPECT_EQ(state.sessions(0).ranks(i).rank(), i);
  EXPECT_EQ(state.sessions_left_out(), 0u);
}

TEST(SimStateDump, SpreadsManyCommunicatorsOverTurnsInOrder) {
  SimWorld world({.seed = 3, .hosts = 1});
  std::deque<SimJob> jobs;
  constexpr int kJobs = 3 * StateDump::kPartsPerTurn + 1;
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_TRUE(jobs.emplace_back(world, std::vector<int>{0}, 1 << 12).Form());
  }
  const state::Daemon state = RequestDump(world, 0);
  ASSERT_EQ(state.sessions_size(), kJobs);
  ASSERT_EQ(state.communicators_size(), kJobs);
  const std::vector<CommId>& announced = world.host(0).controller().announced;
  for (int i = 0; i < kJobs; ++i) {
    EXPECT_EQ(state.communicators(i).id(), FormatCommId(announced[static_cast<size_t>(i)]));
  }
  EXPECT_EQ(state.communicators_left_out(), 0u);
}

TEST(SimStateDump, ShowsTheErrorOfAFailedCommunicator) {
  auto [world, job] = JobWorld({.seed = 4, .hosts = 2}, {0, 1}, 1 << 20);
  job.Fill(kCount);
  job.Post(0, OpKind::kAllReduce, kCount);
  world.RunFor(kNsPerMs);
  world.Kill(1);
  world.RunFor(kNsPerSec);
  const state::Daemon state = RequestDump(world, 0);
  ASSERT_EQ(state.communicators_size(), 1);
  EXPECT_THAT(state.communicators(0).state(), HasSubstr("failed: "));
  EXPECT_FALSE(state.communicators(0).has_operation());
}

}  // namespace state_dump_test
}  // namespace mccs
