// RMA windows have the numbers of their registrations, also after failures.
#include "service/frontend/rank_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/device/cpu_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/frontend/register_now.h"

namespace mccs {
namespace rank_windows_test {

using testing::HasSubstr;
using State = WindowView::State;

class RankWindowsTest : public testing::Test {
 protected:
  RankWindowsTest() {
    auto importer = std::make_unique<LocalImporter>();
    const LocalImporter::Handle handle = importer->Register(memory_, 7);
    device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{}, std::move(importer));
    buffers_ = std::make_unique<BufferRegistry>(*device_, quota_, "blue");
    buffer_ = RegisterNow(*buffers_,
                          {.handle = handle, .fd = UniqueFd(), .bytes = memory_.size(), .owner = 7})
                  ->value();
    windows_ = std::make_unique<RankWindows>(Rank(1), *buffers_);
  }
  absl::Status Open(uint64_t number, uint64_t bytes, uint32_t buffer) {
    wire::RegisterWindow request{};
    request.number = number;
    request.bytes = bytes;
    request.memory.id = buffer;
    return windows_->Open(request);
  }
  State GetView(uint64_t number) { return windows_->GetView(number).state; }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  BufferQuota quota_{BufferLimits{}};
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<BufferRegistry> buffers_;
  uint32_t buffer_ = 0;
  std::unique_ptr<RankWindows> windows_;
};

TEST_F(RankWindowsTest, AWindowIsOpenUntilItIsClosed) {
  EXPECT_EQ(GetView(1), State::kNotYet);
  ASSERT_TRUE(Open(1, 100, buffer_).ok());
  EXPECT_EQ(GetView(1), State::kOpen);
  const auto found = windows_->Find({.number = 1, .offset = 10, .bytes = 90});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->address, memory_.data() + 10);
  EXPECT_FALSE(windows_->Find({.number = 1, .offset = 10, .bytes = 91}).ok());
  EXPECT_TRUE(windows_->Close(1).ok());
  EXPECT_FALSE(windows_->Close(1).ok());
  EXPECT_EQ(GetView(1), State::kGone);
}

TEST_F(RankWindowsTest, AFailedRegistrationUsesItsNumber) {
  const uint64_t before = windows_->changes();
  EXPECT_TRUE(Open(1, 0, 0).ok()) << "the registration failed in the process";
  EXPECT_FALSE(Open(2, 100, buffer_ + 1).ok()) << "no such buffer";
  EXPECT_FALSE(Open(3, memory_.size() + 1, buffer_).ok()) << "it exceeds the buffer";
  EXPECT_EQ(windows_->changes(), before + 3) << "waiting puts check them";
  for (uint64_t number : {1, 2, 3}) {
    EXPECT_EQ(GetView(number), State::kGone) << number;
    const auto found = windows_->Find({.number = number, .offset = 0, .bytes = 1});
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("its registration failed"));
  }
  EXPECT_TRUE(Open(4, 100, buffer_).ok());
  EXPECT_EQ(GetView(4), State::kOpen);
}

TEST_F(RankWindowsTest, RejectsAnUnexpectedNumber) {
  EXPECT_FALSE(Open(0, 100, buffer_).ok());
  EXPECT_FALSE(Open(2, 100, buffer_).ok());
  EXPECT_EQ(GetView(1), State::kNotYet);
  EXPECT_TRUE(Open(1, 100, buffer_).ok());
  EXPECT_FALSE(Open(1, 100, buffer_).ok());
}

TEST_F(RankWindowsTest, MemoryThatCannotBeMappedMakesAWindowThatTakesNoPut) {
  ASSERT_TRUE(Open(1, 100, 0).ok());
  EXPECT_EQ(GetView(1), State::kOpen);
  const auto found = windows_->Find({.number = 1, .offset = 0, .bytes = 1});
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("cannot map"));
}

}  // namespace rank_windows_test
}  // namespace mccs
