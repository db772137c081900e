// Costs that follow the network: production daemons, agents and controller over several kinds of
// network.
#include <gtest/gtest.h>

#include <cstdint>

#include "controller/planning/measured_costs.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_control.h"

namespace mccs {
namespace calibration_test {

constexpr int kHosts = 4;
constexpr int kAtOnce = 16;  // calls in a rank's work ring
constexpr uint64_t kSmall = 2;
// With the daemons' own costs no call of this size takes a direct plan.
constexpr uint64_t kMiddle = 32 << 10;
constexpr int64_t kSettleNs = 3 * CostCalibrator::kCheckEveryNs;

// Every slice takes the same time, whatever its size.
class CalibratedWorld {
 public:
  CalibratedWorld(uint64_t seed, int64_t delay_ns)
      : world_(
            {.seed = seed,
             .hosts = kHosts,
             .lanes = {.slots = 16, .slot_bytes = 16u << 10},  // more than a call of kMiddle needs
             .network = {.min_delay_ns = delay_ns,
                         .max_delay_ns = delay_ns,
                         .max_portion_bytes = 64u << 10,
                         .buffer_bytes = 1u << 20},
             .controller = MakeSimControl(seed, &control_)}),
        job_(world_, {0, 1, 2, 3}, kMiddle * sizeof(float)) {}

  SimWorld& world() { return world_; }
  bool Form() {
    if (!job_.Form()) return false;
    world_.RunFor(kNsPerSec);  // for the controller's update
    return true;
  }
  SimControl& control() { return *control_; }

  strategy::Strategy applied() {
    return control_->With(
        [](Coordinator& c) { return c.registry().communicators().begin()->second.Applied(); });
  }
  // The number of wrong elements; `count` if the calls do not complete.
  uint64_t Run(uint64_t count, int calls) {
    job_.Fill(count);
    for (int i = 0; i < calls; ++i) {
      job_.PostAll(OpKind::kAllReduce, count);
      if (i % kAtOnce != 0 && i + 1 < calls) continue;
      if (!job_.Complete()) return count;
    }
    return job_.Wrong(OpKind::kAllReduce, count);
  }
  int64_t TimeOf(uint64_t count) {
    EXPECT_EQ(Run(count, 1), 0u);  // opens the lanes
    const MonotonicNs begin = world_.clock().Now();
    EXPECT_EQ(Run(count, 1), 0u);
    return world_.clock().Now() - begin;
  }

 private:
  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
  SimJob job_;
};

TEST(SimCalibration, SlowNetworkSelectsFewerHops) {
  constexpr int64_t kDelayNs = 500 * kNsPerUs;
  CalibratedWorld far(1, kDelayNs);
  ASSERT_TRUE(far.Form());
  const int64_t before_ns = far.TimeOf(kMiddle);
  const uint64_t epoch = far.applied().epoch();
  ASSERT_EQ(far.Run(kSmall, 300), 0u);
  far.world().RunFor(kSettleNs);
  ASSERT_EQ(far.applied().epoch(), epoch + 1);
  const strategy::AlgorithmChoice choice = far.applied().algorithms();
  EXPECT_EQ(OwnCostsOf(choice), CostParameters());
  EXPECT_NEAR(CostsOf(choice).hop_us, 492, 5);
  for (int h = 0; h < kHosts; ++h) {
    const auto& report = far.control().agent(h).reports().begin()->second;
    EXPECT_EQ(report.epoch(), epoch + 1) << "host " << h;
  }
  EXPECT_LT(far.TimeOf(kMiddle), before_ns / 2);
  // The costs must not keep changing.
  ASSERT_EQ(far.Run(kSmall, 300), 0u);
  ASSERT_EQ(far.Run(kMiddle, 50), 0u);
  far.world().RunFor(600 * kNsPerSec);
  EXPECT_LE(far.applied().epoch(), epoch + 2);
}

TEST(SimCalibration, ExpectedNetworkChangesNothing) {
  const CostParameters own;
  CalibratedWorld expected_network(
      1, static_cast<int64_t>((own.hop_us + 2 * own.slice_us) * kNsPerUs));
  ASSERT_TRUE(expected_network.Form());
  const uint64_t epoch = expected_network.applied().epoch();
  ASSERT_EQ(expected_network.Run(kSmall, 300), 0u);
  expected_network.world().RunFor(60 * kNsPerSec);
  EXPECT_EQ(expected_network.applied().epoch(), epoch);
}

// Operations continue while the costs change and the controller restarts.
TEST(SimCalibration, LosesNoOperationDuringCostChanges) {
  for (auto [seed, random] : Seeds(10)) {
    CalibratedWorld far(seed, (100 + 100 * static_cast<int64_t>(seed)) * kNsPerUs);
    ASSERT_TRUE(far.Form());
    const uint64_t epoch = far.applied().epoch();
    ASSERT_EQ(far.Run(kSmall, 300), 0u);
    for (int i = 0; i < 20; ++i) {
      far.world().RunFor(2 * kNsPerSec);
      if (seed % 2 == 0 && i == 3) {
        far.control().Kill();
        far.control().Restart();
      }
      ASSERT_EQ(far.Run(i % 2 == 0 ? kSmall : kMiddle, 10), 0u);
    }
    EXPECT_GT(far.applied().epoch(), epoch);
    EXPECT_TRUE(far.applied().algorithms().has_configured_costs());
  }
}

}  // namespace calibration_test
}  // namespace mccs
