// The page that streams and daemon share: its registration with CUDA and its failure state.
#include "shim/daemon/fence.h"

#include <gtest/gtest.h>

#include <thread>

#include "shim/cuda/driver_api.h"
#include "shim/daemon/error_message.h"
#include "tests/unit/shim/test_cuda.h"

namespace mccs::shim {
namespace fence_test {

TEST(FencePage, IsUnregisteredByAThreadWithoutContext) {
  test_cuda::Reset();
  test_cuda::SetDevice(0);
  const absl::StatusOr<DriverApi> driver = LoadDriverApi();
  ASSERT_TRUE(driver.ok());
  absl::StatusOr<SharedRegion> made = SharedRegion::Create("fence-test", sizeof(wire::CommRegion));
  ASSERT_TRUE(made.ok());
  reinterpret_cast<wire::CommRegion*>(made->data())->header.magic = wire::kFencePageMagic;
  const size_t before = test_cuda::registered_host_ranges();
  absl::StatusOr<std::unique_ptr<FencePage>> page = FencePage::Open(*driver, *std::move(made));
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(test_cuda::registered_host_ranges(), before + 1);
  std::thread([&page] { page->reset(); }).join();
  EXPECT_EQ(test_cuda::registered_host_ranges(), before);
}

class FailedRegion : public testing::Test {
 protected:
  bool CapturedIsReleased() const { return region_.captured_done[7].value.load() != 0; }
  wire::CommRegion region_{};
};

TEST_F(FailedRegion, KeepsTheFirstFailureAndReleasesNoStream) {
  region_.done.value.store(5);
  FailLocally(region_, wire::ErrorClass::kSystem, "the daemon ended");
  FailLocally(region_, wire::ErrorClass::kAborted, "aborted");
  EXPECT_EQ(FailureOf(region_), absl::UnavailableError("the daemon ended"));
  EXPECT_EQ(region_.done.value.load(), 5u);
  EXPECT_FALSE(CapturedIsReleased());
}

TEST_F(FailedRegion, ReleaseKeepsTheLastDoneValue) {
  region_.done.value.store(5);
  for (int i = 0; i < 2; ++i) {
    ReleaseStreams(region_, /*captured=*/i == 1);
    EXPECT_EQ(region_.done.value.load(), wire::kFencePoison);
    EXPECT_EQ(LastDone(region_), 5u);
    EXPECT_EQ(CapturedIsReleased(), i == 1);
  }
}

TEST_F(FailedRegion, DeathFailsTheWorkAfterAFailedCall) {
  region_.failure.accepts_calls.store(1);
  region_.failure.error.store(static_cast<uint32_t>(wire::ErrorClass::kRemote));
  EXPECT_FALSE(FailureOf(region_).ok());
  EXPECT_TRUE(WorkFailureOf(region_).ok());
  FailLocally(region_, wire::ErrorClass::kSystem, "the daemon ended");
  EXPECT_TRUE(absl::IsDataLoss(WorkFailureOf(region_)));
}

}  // namespace fence_test
}  // namespace mccs::shim
