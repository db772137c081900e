// A host without descriptors or memory, a clock that jumps, and a network that loses one direction:
// the jobs that meet the fault get an error that names the resource, other jobs are not affected,
// and the next job succeeds. sim_test has these faults at random times (random_faults.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace resource_faults_test {

using testing::HasSubstr;

constexpr uint64_t kCount = 1000;
constexpr size_t kBytes = 1 << 16;
constexpr char kNoDescriptors[] = "Too many open files";
constexpr char kNoMemory[] = "Cannot allocate memory";

class SimResourceFaults : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(job_.Form());
    ASSERT_TRUE(other_.Form());
    ASSERT_EQ(job_.Run(OpKind::kAllReduce, kCount), "");
  }

  void SetOutOfDescriptors(int host, bool is) {
    world_.network().SetOutOfDescriptors(world_.host(host).address(), is);
  }
  // Breaks the first lane of job_ that leaves this host.
  void CutLane(int host) {
    const auto& report = world_.host(host).controller().reports.at(job_.rank(0).id);
    ASSERT_TRUE(world_.CutLane(report.lanes(0).local()));
  }
  void ExpectFailed(const char* why) {
    ASSERT_TRUE(job_.RunUntilFailed({0, 1}));
    for (int r = 0; r < job_.ranks(); ++r) EXPECT_THAT(job_.rank(r).failure(), HasSubstr(why));
    EXPECT_EQ(other_.Run(OpKind::kAllReduce, kCount), "");
  }
  void ExpectNextJobSucceeds() {
    SimJob next(world_, {0, 1}, kBytes);
    ASSERT_TRUE(next.Form());
    EXPECT_EQ(next.Run(OpKind::kAllReduce, kCount), "");
  }
  // The error of a job of this process's rank and one on host 1.
  std::string ErrorOfInit(const wire::UniqueId& id) {
    SimTenant& process = world_.AddTenant(0);
    EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    const SimRank& rank = process.Init(id, 2, 1);
    EXPECT_TRUE(world_.RunUntil([&] { return rank.answered; }));
    return rank.status.text;
  }

  SimWorld world_{{.seed = 8, .hosts = 3}};
  SimJob job_{world_, {0, 1}, kBytes};
  SimJob other_{world_, {1, 2}, kBytes, "uid 1001"};
};

TEST_F(SimResourceFaults, AJobThatCannotConnectGetsTheReason) {
  SimTenant& root = world_.AddTenant(1);
  ASSERT_TRUE(world_.GetUniqueId(root));
  SetOutOfDescriptors(0, true);
  EXPECT_THAT(ErrorOfInit(root.unique_id()), HasSubstr(kNoDescriptors));
  EXPECT_EQ(job_.Run(OpKind::kAllReduce, kCount), "") << "a job that is connected goes on";
  EXPECT_EQ(other_.Run(OpKind::kAllReduce, kCount), "");
  SetOutOfDescriptors(0, false);
  ExpectNextJobSucceeds();
}

TEST_F(SimResourceFaults, AJobThatCannotListenGetsTheReason) {
  SetOutOfDescriptors(0, true);
  SimTenant& process = world_.AddTenant(0);
  ASSERT_TRUE(world_.RunUntil([&] { return process.connected(); }));
  const SimRank& rank = process.Init(MakeEnvironmentId("10.0.0.1"), 2, 0);
  ASSERT_TRUE(world_.RunUntil([&] { return rank.answered; }));
  EXPECT_THAT(rank.status.text, HasSubstr(kNoDescriptors));
}

TEST_F(SimResourceFaults, ALaneThatCannotReconnectGetsTheReason) {
  SetOutOfDescriptors(0, true);
  CutLane(0);
  job_.PostAll(OpKind::kAllReduce, kCount);
  ExpectFailed("lane of channel 0 with host 10.0.0.");
  // The receiving end does not know it.
  EXPECT_THAT(job_.rank(0).failure(), HasSubstr(kNoDescriptors));
  SetOutOfDescriptors(0, false);
  ExpectNextJobSucceeds();
}

TEST_F(SimResourceFaults, AConnectionWaitsUntilItsHostAcceptsAgain) {
  SetOutOfDescriptors(1, true);
  CutLane(0);
  job_.PostAll(OpKind::kAllReduce, kCount);
  world_.RunFor(300 * kNsPerMs);
  EXPECT_FALSE(job_.Done());
  EXPECT_TRUE(world_.host(1).log().Contains(kNoDescriptors));
  SetOutOfDescriptors(1, false);
  EXPECT_TRUE(job_.Complete());
}

TEST_F(SimResourceFaults, WithoutMemoryBuffersAreRejectedWithTheReason) {
  world_.host(0).SetOutOfMemory(true);
  std::vector<std::byte> memory(kBytes);
  SimTenant& process = world_.AddTenant(0);
  process.Register(memory.data(), memory.size());
  ASSERT_TRUE(world_.RunUntil([&] { return process.HasAnswerFor(memory.data()); }));
  EXPECT_EQ(process.BufferAt(memory.data()), 0u);
  EXPECT_THAT(process.rejection(), HasSubstr(kNoMemory));
  world_.host(0).SetOutOfMemory(false);
  ExpectNextJobSucceeds();
}

TEST_F(SimResourceFaults, WithoutMemoryForAPlanOnlyItsCommunicatorFails) {
  world_.host(0).SetOutOfMemory(true);
  job_.PostAll(OpKind::kAllGather, kCount);
  ExpectFailed(kNoMemory);
  world_.host(0).SetOutOfMemory(false);
  ExpectNextJobSucceeds();
}

TEST_F(SimResourceFaults, ASuspendedHostFailsNoJob) {
  for (const int64_t ns : {kNsPerSec, 30 * kNsPerSec, 600 * kNsPerSec}) {
    job_.Fill(kCount);
    job_.PostAll(OpKind::kAllReduce, kCount);
    world_.RunFor(20 * kNsPerUs);
    world_.host(0).JumpClock(ns);
    EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kCount), "");
    EXPECT_EQ(other_.Run(OpKind::kAllReduce, kCount), "");
  }
  ExpectNextJobSucceeds();
}

TEST_F(SimResourceFaults, ABriefLossOfOneDirectionFailsNoJob) {
  world_.network().PartitionOneWay(world_.host(0).address(), world_.host(1).address());
  CutLane(0);
  CutLane(1);
  job_.Fill(kCount);
  job_.PostAll(OpKind::kAllReduce, kCount);
  world_.RunFor(200 * kNsPerMs);
  EXPECT_FALSE(job_.Done());
  world_.network().Heal(world_.host(0).address(), world_.host(1).address());
  EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kCount), "");
}

TEST_F(SimResourceFaults, ALongLossOfOneDirectionFailsOnlyJobsOverIt) {
  world_.network().PartitionOneWay(world_.host(0).address(), world_.host(1).address());
  CutLane(0);
  CutLane(1);
  job_.PostAll(OpKind::kAllReduce, kCount);
  world_.RunFor(kNsPerSec);
  world_.network().Heal(world_.host(0).address(), world_.host(1).address());
  ExpectFailed("lane of channel 0");
  ExpectNextJobSucceeds();
}

}  // namespace resource_faults_test
}  // namespace mccs
