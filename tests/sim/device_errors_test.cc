// An operation of a device that fails ends its communicator on all hosts, with the device's error
// message, and no other communicator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace device_errors_test {

using testing::HasSubstr;

class SimDeviceErrors : public testing::Test {
 protected:
  static constexpr uint64_t kCount = 1000;
  static constexpr const char* kLost = "GPU 0 was lost: Xid 79";

  void SetUp() override {
    ASSERT_TRUE(victim_.Form());
    ASSERT_TRUE(other_.Form());
  }
  void ExpectVictimFailsAlone() {
    EXPECT_TRUE(victim_.RunUntilFailed({0, 1, 2, 3}, kNsPerSec));
    for (int r = 0; r < victim_.ranks(); ++r) {
      EXPECT_THAT(victim_.rank(r).failure(), HasSubstr(kLost)) << "rank " << r;
    }
    other_.PostAll(OpKind::kAllReduce, kCount);
    EXPECT_TRUE(other_.Complete());
    for (int r = 0; r < other_.ranks(); ++r) EXPECT_FALSE(other_.rank(r).failed());
  }

  SimWorld world_{{.seed = 3, .hosts = 2}};
  SimJob victim_{world_, {0, 0, 1, 1}, 1 << 20};
  SimJob other_{world_, {0, 0, 1, 1}, 1 << 20, "uid 1001"};
};

TEST_F(SimDeviceErrors, FailedCollectiveEndsItsCommunicatorOnly) {
  world_.host(1).device().FailNext(absl::InternalError(kLost));
  victim_.PostAll(OpKind::kAllReduce, kCount);
  ExpectVictimFailsAlone();
}

TEST_F(SimDeviceErrors, FailedLocalMessageEndsItsCommunicatorOnly) {
  world_.host(0).device().FailNext(absl::InternalError(kLost));
  victim_.Post(0, {.sends = true, .peer = 1, .at = 0, .count = kCount});
  victim_.Post(1, {.sends = false, .peer = 0, .at = 0, .count = kCount});
  ExpectVictimFailsAlone();
}

}  // namespace device_errors_test
}  // namespace mccs
