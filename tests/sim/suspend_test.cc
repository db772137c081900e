// The memory that daemons hold for a suspended communicator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/units.h"
#include "tests/sim/sim_job.h"

namespace mccs {
namespace suspend_test {

constexpr uint64_t kCount = 2'000'000;
// 4 MiB per lane and direction.
constexpr LaneShape kLanes{.slots = 16, .slot_bytes = 256u << 10};
// At least the staging of the two senders, which the test's all-reduce uses.
constexpr int64_t kHeldBytes = 3 * static_cast<int64_t>(kMiB);

// ResidentBytes memory of this process, which runs both daemons.
int64_t ResidentBytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm").ignore(64, ' ') >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

class SimSuspend : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(job_.Form());
    Run();
  }
  void Run() {
    EXPECT_EQ(job_.Run(OpKind::kAllReduce, kCount), "");
    world_.RunFor(kNsPerMs);  // for the last acknowledgements
  }
  void Suspend(int r, bool suspended = true) {
    job_.tenant(r).Suspend(job_.rank(r), suspended);
    world_.RunFor(kNsPerMs);
  }

  SimWorld world_{{.seed = 3, .hosts = 2, .lanes = kLanes}};
  SimJob job_{world_, {0, 0, 1}, kCount * sizeof(float)};
};

TEST_F(SimSuspend, FreesLaneMemoryWithTheLastRankOfAHost) {
  const int64_t before = ResidentBytes();
  Suspend(0);
  EXPECT_GT(ResidentBytes(), before - static_cast<int64_t>(kMiB))
      << "memory was freed although rank 1 may still post";
  Suspend(1);
  Suspend(2);
  EXPECT_LE(ResidentBytes(), before - kHeldBytes);
  for (int r = 0; r < 3; ++r) Suspend(r, false);
  Run();
  Run();
  EXPECT_GT(ResidentBytes(), before - kHeldBytes / 2) << "the memory must be in use again";
}

TEST_F(SimSuspend, CompletesPostedWorkBeforeSuspending) {
  const int64_t before = ResidentBytes();
  job_.Fill(kCount);
  for (int r : {0, 1}) job_.Post(r, OpKind::kAllReduce, kCount);
  for (int r : {0, 1}) Suspend(r);
  EXPECT_GT(ResidentBytes(), before - static_cast<int64_t>(kMiB));
  job_.Post(2, OpKind::kAllReduce, kCount);
  Suspend(2);
  EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kCount), "");
  world_.RunFor(kNsPerMs);
  const int64_t then = ResidentBytes();
  for (int r = 0; r < 3; ++r) Suspend(r);
  EXPECT_GT(ResidentBytes(), then - static_cast<int64_t>(kMiB))
      << "it must have been freed after the last operation";
}

// The daemon reads this message before it looks for new work.
TEST_F(SimSuspend, InvalidCallDirectlyBeforeFails) {
  Suspend(0);
  SimCall bad = job_.CallOf(1, OpKind::kAllReduce, kCount);
  bad.send.id += 1'000'000;
  job_.tenant(1).Post(job_.rank(1), bad);
  Suspend(1);
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE(job_.RunUntilFailed({r}, kNsPerSec)) << "rank " << r;
    EXPECT_THAT(job_.rank(r).failure(), testing::HasSubstr("rank 1, call #2"));
  }
}

// Host 1 resumes first and sends while host 0 is suspended: host 0 must not lose what arrives.
TEST_F(SimSuspend, HostsResumeInAnyOrder) {
  for (int r = 0; r < 3; ++r) Suspend(r);
  job_.Fill(kCount);
  Suspend(2, false);
  job_.Post(2, OpKind::kAllReduce, kCount);
  world_.RunFor(20 * kNsPerMs);
  Suspend(0);  // again: nothing that has arrived may be lost
  for (int r : {0, 1}) {
    Suspend(r, false);
    job_.Post(r, OpKind::kAllReduce, kCount);
  }
  EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kCount), "");
}

TEST_F(SimSuspend, DepartedRankDoesNotPreventIt) {
  const int64_t before = ResidentBytes();
  Suspend(0);
  Suspend(2);
  job_.Destroy(1);
  ASSERT_TRUE(job_.RunUntilEnded(1));
  EXPECT_LE(ResidentBytes(), before - kHeldBytes);
}

}  // namespace suspend_test
}  // namespace mccs
