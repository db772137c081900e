// The page that streams and daemon share: how it is given back to CUDA.
#include "shim/fence.h"

#include <gtest/gtest.h>

#include <thread>

#include "shim/driver_api.h"
#include "tests/unit/shim/fake_cuda.h"

namespace mccs::shim {
namespace {

TEST(FencePage, IsUnregisteredByAThreadThatHasNoContext) {
  fake_cuda::Reset();
  const absl::StatusOr<DriverApi> driver = LoadDriverApi();
  ASSERT_TRUE(driver.ok());
  absl::StatusOr<SharedRegion> made = SharedRegion::Create("fence-test", sizeof(wire::CommRegion));
  ASSERT_TRUE(made.ok());
  reinterpret_cast<wire::CommRegion*>(made->data())->header.magic = wire::kFencePageMagic;
  const size_t before = fake_cuda::registered_host_ranges();
  absl::StatusOr<std::unique_ptr<FencePage>> page = FencePage::Open(*driver, *std::move(made));
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(fake_cuda::registered_host_ranges(), before + 1);
  std::thread([&page] { page->reset(); }).join();
  EXPECT_EQ(fake_cuda::registered_host_ranges(), before);
}

}  // namespace
}  // namespace mccs::shim
