// The policy time_windows with production daemons, agents and controller: although hosts' clocks
// differ, a job sends while the favoured job computes.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "tests/sim/sim_control.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace time_windows_test {

// About 60 ms and 5 ms on this network.
constexpr uint64_t kFavouredCount = 200'000;
constexpr uint64_t kOtherCount = 10'000;
constexpr int64_t kComputeNs = 140 * kNsPerMs;

const std::string kObjects =
    Together({TenantDocument("a", 1), TenantDocument("b", 2),
              PolicyDocument("windows", "  type: time_windows\n  parameters: {favoured: [a]}\n")});

class SimTimeWindows : public testing::TestWithParam<uint64_t> {
 protected:
  SimTimeWindows()
      : random_(GetParam()),
        world_({.seed = GetParam(),
                .hosts = 2,
                .network = kSlowNetwork,
                .clock_offsets_ns = {3 * kNsPerSec, 7919 * kNsPerSec},
                .controller = MakeSimControl(GetParam(), &control_)}),
        favoured_(world_, {0, 1}, kFavouredCount * sizeof(float), "uid 1"),
        other_(world_, {0, 1}, kOtherCount * sizeof(float), "uid 2") {
    EXPECT_TRUE(favoured_.Form());
    EXPECT_TRUE(other_.Form());
    favoured_.Fill(kFavouredCount);
    other_.Fill(kOtherCount);
  }

  // Rate of the other job, while the favoured job is communicating and while it is not.
  struct Pace {
    uint64_t operations_beside = 0, operations_alone = 0;
    int64_t ns_beside = 0, ns_alone = 0;

    double rate_beside() const { return Rate(operations_beside, ns_beside); }
    double rate_alone() const { return Rate(operations_alone, ns_alone); }
    static double Rate(uint64_t operations, int64_t ns) {
      return 1e9 * static_cast<double>(operations) / static_cast<double>(ns);
    }
  };
  // The other job always has work; the favoured job computes and communicates in turn, or is idle.
  Pace Work(int64_t ns, bool favoured_works = true) {
    Pace limits;
    for (const MonotonicNs end = world_.clock().Now() + ns; world_.clock().Now() < end;) {
      if (other_.Done()) {
        for (int i = 0; i < 20; ++i) other_.PostAll(OpKind::kAllReduce, kOtherCount);
      }
      const bool was_at_work = !favoured_.Done();
      if (favoured_works && !was_at_work && world_.clock().Now() >= compute_until_) {
        favoured_.PostAll(OpKind::kAllReduce, kFavouredCount);
      }
      const bool at_work = !favoured_.Done();
      const uint64_t before = other_.rank(0).done();
      world_.RunFor(kNsPerMs);
      (at_work ? limits.operations_beside : limits.operations_alone) +=
          other_.rank(0).done() - before;
      (at_work ? limits.ns_beside : limits.ns_alone) += kNsPerMs;
      if (at_work && favoured_.Done()) {
        const auto jitter = static_cast<int64_t>(random_() % (4 * kNsPerMs));
        compute_until_ = world_.clock().Now() + kComputeNs + jitter;
      }
    }
    return limits;
  }

  std::mt19937_64 random_;
  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
  SimJob favoured_, other_;
  MonotonicNs compute_until_ = 0;
};

TEST_P(SimTimeWindows, OtherJobSendsWhileTheFavouredComputes) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  const Pace free = Work(3 * kNsPerSec);
  ASSERT_GT(free.rate_beside(), 0.5 * free.rate_alone())
      << "in this network streams do not share a rate";
  control_->SetObjects(kObjects);
  Work(4 * kNsPerSec);
  const Pace in_windows = Work(4 * kNsPerSec);
  EXPECT_LT(in_windows.rate_beside(), 0.15 * free.rate_beside());
  EXPECT_GT(in_windows.rate_alone(), 0.5 * free.rate_alone());
  // When the favoured job ends, the windows soon end too.
  Work(3 * kNsPerSec, /*favoured_works=*/false);
  const Pace alone = Work(2 * kNsPerSec, /*favoured_works=*/false);
  EXPECT_GT(alone.rate_alone(), 0.9 * free.rate_alone());
  // They return with it.
  Work(4 * kNsPerSec);
  EXPECT_LT(Work(3 * kNsPerSec).rate_beside(), 0.15 * free.rate_beside());
  // When the operator deletes the policy, the windows end at once.
  control_->SetObjects("");
  Work(100 * kNsPerMs);
  EXPECT_GT(Work(2 * kNsPerSec).rate_beside(), 0.5 * free.rate_beside());
  ASSERT_TRUE(world_.RunUntil([&] { return favoured_.Done() && other_.Done(); }));
  EXPECT_EQ(favoured_.Wrong(OpKind::kAllReduce, kFavouredCount), 0u);
  EXPECT_EQ(other_.Wrong(OpKind::kAllReduce, kOtherCount), 0u);
}

// Windows survive the controller; the next one detects the period again.
TEST_P(SimTimeWindows, RestartedControllerContinuesTheWindows) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  control_->SetObjects(kObjects);
  Work(6 * kNsPerSec);
  control_->Kill();
  Work(kNsPerSec);
  control_->Restart();
  Work(7 * kNsPerSec);
  const Pace in_windows = Work(4 * kNsPerSec);
  EXPECT_LT(in_windows.rate_beside(), 0.2 * in_windows.rate_alone());
}

// The next controller has no windows for this job and no job to wait for.
TEST_P(SimTimeWindows, WindowsEndForAJobThatEndedWithoutAController) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  const Pace free = Work(2 * kNsPerSec, /*favoured_works=*/false);
  control_->SetObjects(kObjects);
  Work(6 * kNsPerSec);
  control_->Kill();
  ASSERT_TRUE(favoured_.Complete());
  for (int r = 0; r < favoured_.ranks(); ++r) favoured_.Destroy(r);
  ASSERT_TRUE(world_.RunUntil([&] { return favoured_.Ended(); }));
  const Pace waits = Work(2 * kNsPerSec, /*favoured_works=*/false);
  EXPECT_LT(waits.rate_alone(), 0.85 * free.rate_alone()) << "windows survive the controller";
  control_->Restart();
  Work(Coordinator::kLiftOldLimitsAfterNs + kNsPerSec, /*favoured_works=*/false);
  const Pace alone = Work(2 * kNsPerSec, /*favoured_works=*/false);
  EXPECT_GT(alone.rate_alone(), 0.9 * free.rate_alone());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimTimeWindows, testing::Values(1, 2, 3));

}  // namespace time_windows_test
}  // namespace mccs
