// Rate limits of a controller that has ended, what the next controller does with them, and what
// daemons that restart meanwhile know: production daemons, agents and controllers.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace controller_restart_test {

constexpr uint64_t kCount = 10'000;  // about 5 ms on this network
constexpr int64_t kMeasureNs = 2 * kNsPerSec;

// The number of operations in `ns`, of a job that always has operations posted.
uint64_t OperationsIn(SimWorld& world, SimJob& job, int64_t ns) {
  const uint64_t before = job.rank(0).done();
  for (const MonotonicNs end = world.clock().Now() + ns; world.clock().Now() < end;) {
    if (job.Done()) {
      for (int i = 0; i < 20; ++i) job.PostAll(OpKind::kAllReduce, kCount);
    }
    world.RunFor(kNsPerMs);
  }
  return job.rank(0).done() - before;
}

class SimControllerRestart : public testing::TestWithParam<uint64_t> {
 protected:
  SimControllerRestart()
      : world_({.seed = GetParam(),
                .hosts = 2,
                .network = kSlowNetwork,
                .controller = MakeSimControl(GetParam(), &control_)}),
        job_(world_, {0, 1}, kCount * sizeof(float), "uid 1") {
    EXPECT_TRUE(job_.Form());
    job_.Fill(kCount);
  }

  uint64_t OperationsIn(int64_t ns) {
    return controller_restart_test::OperationsIn(world_, job_, ns);
  }

  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
  SimJob job_;
};

// The next controller has no objects, as without a store or with another store.
TEST_P(SimControllerRestart, NextControllerWithoutCapRemovesTheLimit) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  const uint64_t free = OperationsIn(kMeasureNs);
  // A tenth of the job's rate without a cap.
  control_->SetObjects(TenantDocument("a", 1, "  cap: 4Mbit/s\n"));
  OperationsIn(kNsPerSec);
  EXPECT_LT(OperationsIn(kMeasureNs), free / 3);
  control_->Kill();
  control_->SetObjects("");
  OperationsIn(kNsPerSec);
  EXPECT_LT(OperationsIn(kMeasureNs), free / 3) << "the cap holds without a controller";
  control_->Restart();
  OperationsIn(Coordinator::kLiftOldLimitsAfterNs + kNsPerSec);
  EXPECT_GT(OperationsIn(kMeasureNs), free - free / 10);
  EXPECT_EQ(job_.Finish(OpKind::kAllReduce, kCount), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimControllerRestart, testing::Values(1, 2, 3));

// Daemons that keep their Tenants in files, and restart while the controller is away.
class SimDaemonRestart : public testing::Test {
 protected:
  void SetCap(const char* cap) {
    control_->SetObjects(TenantDocument("a", 1, absl::StrCat("  cap: ", cap, "\n")));
    world_.RunFor(kNsPerSec);
  }
  void RestartDaemons() {
    for (int h = 0; h < world_.hosts(); ++h) {
      world_.Kill(h);
      world_.Restart(h);
    }
  }
  // Of a new job of the Tenant.
  uint64_t OperationsOfJob() {
    SimJob& job =
        jobs_.emplace_back(world_, std::vector<int>{0, 1}, kCount * sizeof(float), "uid 1");
    EXPECT_TRUE(job.Form());
    job.Fill(kCount);
    return OperationsIn(world_, job, kMeasureNs);
  }
  void ExpectNoViolation() {
    for (int h = 0; h < world_.hosts(); ++h) EXPECT_EQ(control_->tenants_file(h).violation(), "");
    EXPECT_EQ(control_->failing_store()->FindViolation(), "");
  }

  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_{{.seed = 1,
                   .hosts = 2,
                   .network = kSlowNetwork,
                   .controller = MakeSimControl(1, &control_, {.has_disks = true})}};
  std::deque<SimJob> jobs_;
};

TEST_F(SimDaemonRestart, ACapHoldsWhileTheControllerIsAway) {
  const uint64_t free = OperationsOfJob();
  SetCap("4Mbit/s");
  control_->Kill();
  RestartDaemons();
  EXPECT_LT(OperationsOfJob(), free / 3);
  ExpectNoViolation();
}

TEST_F(SimDaemonRestart, ACapOfBeforeHoldsIfTheNextOneCannotBeKept) {
  const uint64_t free = OperationsOfJob();
  SetCap("4Mbit/s");
  for (int h = 0; h < world_.hosts(); ++h)
    control_->tenants_file(h).disk().Fail(FailingDisk::Fault::kFull);
  SetCap("400Mbit/s");
  control_->Kill();
  RestartDaemons();
  EXPECT_LT(OperationsOfJob(), free / 3);
  ExpectNoViolation();
}

TEST_F(SimDaemonRestart, ADaemonThatDiesInAWriteKeepsACap) {
  const uint64_t free = OperationsOfJob();
  SetCap("4Mbit/s");
  for (int h = 0; h < world_.hosts(); ++h)
    control_->tenants_file(h).disk().DieAt(FailingDisk::Death::kInWrite, /*left=*/20);
  SetCap("400Mbit/s");
  control_->Kill();
  for (int h = 0; h < world_.hosts(); ++h) EXPECT_TRUE(control_->tenants_file(h).disk().dead());
  RestartDaemons();
  EXPECT_LT(OperationsOfJob(), free / 3);
  ExpectNoViolation();
}

}  // namespace controller_restart_test
}  // namespace mccs
