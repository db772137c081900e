// The host's budget over whole daemons: a tenant that takes all that it gets leaves enough for
// others, its error says how much it has, and all of it returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace host_budget_test {

using testing::HasSubstr;

class SimHostBudget : public testing::Test {
 protected:
  static SimWorldOptions Options(int hosts, Resource resource, uint64_t limit) {
    SimWorldOptions options{.seed = 1, .hosts = hosts, .network = {}};
    options.limits[resource] = limit;
    return options;
  }
  SimTenant& Process(SimWorld& world, int host, const std::string& called) {
    SimTenant& process = world.AddTenant(host, called);
    EXPECT_TRUE(world.RunUntil([&] { return process.connected(); }));
    return process;
  }
  // Forms a communicator over one rank of each process. Returns the first error; empty: none.
  std::string Form(SimWorld& world, const std::vector<SimTenant*>& processes) {
    EXPECT_TRUE(world.GetUniqueId(*processes[0]));
    std::vector<SimRank*> ranks;
    for (size_t r = 0; r < processes.size(); ++r) {
      ranks.push_back(&processes[r]->Init(processes[0]->unique_id(),
                                          static_cast<int>(processes.size()), static_cast<int>(r)));
    }
    EXPECT_TRUE(world.RunUntil(
        [&] { return std::ranges::all_of(ranks, [](SimRank* rank) { return rank->answered; }); }));
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (!ranks[r]->status.text[0]) formed_.emplace_back(processes[r], ranks[r]);
    }
    for (SimRank* rank : ranks) {
      if (rank->status.text[0] != 0) return rank->status.text;
    }
    return "";
  }
  std::vector<std::pair<SimTenant*, SimRank*>> formed_;
};

TEST_F(SimHostBudget, CommunicatorsThatNeverFormLeaveRoomForOthers) {
  SimWorld world(Options(1, Resource::kForming, 16));
  SimTenant& red = Process(world, 0, "red");
  SimTenant& blue = Process(world, 0, "blue");
  std::vector<SimRank*> waiting;
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(world.GetUniqueId(red));
    waiting.push_back(&red.Init(red.unique_id(), /*ranks=*/2, 0));
  }
  ASSERT_TRUE(world.RunUntil([&] { return waiting.back()->answered; }));
  EXPECT_THAT(std::string(waiting.back()->status.text),
              HasSubstr("too many communicators that are forming on this host: tenant red has 8 "
                        "and asks for 1 more, 8 of 16 are free"));
  EXPECT_EQ(Form(world, {&blue}), "");
  // Formed ones do not count.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Form(world, {&blue}), "") << i;
  red.Kill();
  ASSERT_TRUE(world.RunUntil([&] { return world.host(0).daemon().sessions() == 1; }));
  EXPECT_EQ(world.host(0).daemon().held(Resource::kForming), 0u);
}

TEST_F(SimHostBudget, CommunicatorsReturnWhenTheirProcessEnds) {
  SimWorld world(Options(1, Resource::kCommunicators, 10));
  SimTenant& red = Process(world, 0, "red");
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Form(world, {&red}), "");
  EXPECT_THAT(Form(world, {&red}), HasSubstr("tenant red has 5 and asks for 1 more, 5 of 10"));
  SimTenant& blue = Process(world, 0, "blue");
  EXPECT_EQ(Form(world, {&blue}), "");
  red.Kill();
  ASSERT_TRUE(world.RunUntil([&] { return world.host(0).daemon().communicators() == 1; }));
  SimTenant& next = Process(world, 0, "red");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Form(world, {&next}), "") << i;
}

// Users without a Tenant pin no more together than one tenant may. What a tenant may not pin is
// copied.
TEST_F(SimHostBudget, MemoryPinnedByManyUsersLeavesRoomForATenant) {
  if (std::getenv("MCCS_SIM_DEVICE") != nullptr) GTEST_SKIP() << "memory on GPUs is not pinned";
  SimWorldOptions options = Options(2, Resource::kPinnedMemory, 8 * kMiB);
  options.verbs = FakeVerbsOptions{};
  SimWorld world(options);
  constexpr uint64_t kBytes = 1 * kMiB;  // of each of two buffers
  std::deque<SimJob> jobs;
  const auto run = [&](const std::string& tenant) {
    SimJob& job = jobs.emplace_back(world, std::vector<int>{0, 1}, kBytes, tenant);
    ASSERT_TRUE(job.Form());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(job.Run(OpKind::kAllReduce, kBytes / sizeof(float)), "") << tenant;
    }
  };
  const auto refused = [&](int host, const std::string& tenant) {
    const auto counters = world.host(host).daemon().counters()->Of(tenant);
    return counters->refused[static_cast<size_t>(Resource::kPinnedMemory)].value();
  };
  const auto pinned = [&](int host) {
    return world.host(host).daemon().held(Resource::kPinnedMemory);
  };
  for (const char* user : {"uid 1000", "uid 2000", "uid 3000"}) run(user);
  for (int h = 0; h < 2; ++h) {
    EXPECT_GT(pinned(h), 0u);
    EXPECT_LE(pinned(h), 4 * kMiB);
    EXPECT_GT(refused(h, "uid 3000"), 0u);
  }
  run("red");
  for (int h = 0; h < 2; ++h) EXPECT_EQ(refused(h, "red"), 0u);
  for (SimJob& job : jobs) {
    for (int r = 0; r < job.ranks(); ++r) job.tenant(r).Kill();
  }
  EXPECT_TRUE(world.RunUntil([&] { return pinned(0) == 0 && pinned(1) == 0; }, 60 * kNsPerSec));
}

// Each of them fails its own communicator on all hosts, with the reason of the host that lacks it.
class LackedBetweenHosts : public SimHostBudget, public testing::WithParamInterface<Resource> {};

INSTANTIATE_TEST_SUITE_P(Resources, LackedBetweenHosts,
                         testing::Values(Resource::kDescriptors, Resource::kMappings,
                                         Resource::kLaneMemory),
                         [](const auto& each) { return std::string(FactsOf(each.param).label); });

TEST_P(LackedBetweenHosts, FailsWithTheReasonAndLeavesRoomForOthers) {
  SimWorld world(Options(3, GetParam(), GetParam() == Resource::kLaneMemory ? 512 * kKiB : 100));
  std::vector<SimTenant*> red, blue;
  for (int h = 0; h < 3; ++h) red.push_back(&Process(world, h, "red"));
  for (int h = 0; h < 3; ++h) blue.push_back(&Process(world, h, "blue"));
  const uint64_t before = world.host(0).daemon().held(GetParam());
  std::string error;
  int formed = 0;
  for (; error.empty() && formed < 200; ++formed) error = Form(world, red);
  EXPECT_GT(formed, 1);
  EXPECT_THAT(error,
              HasSubstr(std::string("too m") + (FactsOf(GetParam()).bytes ? "uch " : "any ") +
                        FactsOf(GetParam()).noun + " on this host: tenant red has "));
  EXPECT_EQ(Form(world, blue), "");
  for (const auto& [process, rank] : formed_) process->Destroy(*rank);
  ASSERT_TRUE(world.RunUntil([&] {
    for (int h = 0; h < 3; ++h) {
      if (world.host(h).daemon().held(GetParam()) != before) return false;
    }
    return true;
  }));
}

}  // namespace host_budget_test
}  // namespace mccs
