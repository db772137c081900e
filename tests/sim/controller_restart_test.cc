// Rate limits of a controller that has ended, and what the next controller does with them:
// production daemons, agents and controllers.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/sim/sim_control.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace controller_restart_test {

constexpr uint64_t kCount = 10'000;  // about 5 ms on this network

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

  // The number of operations in `ns`, of a job that always has operations posted.
  uint64_t OperationsIn(int64_t ns) {
    const uint64_t before = job_.rank(0).done();
    for (const MonotonicNs end = world_.clock().Now() + ns; world_.clock().Now() < end;) {
      if (job_.Done()) {
        for (int i = 0; i < 20; ++i) job_.PostAll(OpKind::kAllReduce, kCount);
      }
      world_.RunFor(kNsPerMs);
    }
    return job_.rank(0).done() - before;
  }

  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
  SimJob job_;
};

// The next controller has no objects, as without a store or with another store.
TEST_P(SimControllerRestart, NextControllerWithoutCapRemovesTheLimit) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  constexpr int64_t kMeasureNs = 2 * kNsPerSec;
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

}  // namespace controller_restart_test
}  // namespace mccs
