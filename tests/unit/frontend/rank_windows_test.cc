// RMA windows have the numbers of their registrations, also after failures.
#include "service/frontend/rank_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/device/gpu/gpu_importer.h"
#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace rank_windows_test {

using testing::HasSubstr;
using State = WindowView::State;

class RankWindowsTest : public RankEndpointTest {
 protected:
  absl::Status Open(uint64_t number, uint64_t bytes, uint32_t buffer) {
    wire::RegisterWindow request{};
    request.number = number;
    request.bytes = bytes;
    request.memory.id = buffer;
    return windows_.Open(request);
  }
  State GetView(uint64_t number) { return windows_.GetView(number).state; }

  RankWindows windows_{Rank(1), *buffers_};
};

TEST_F(RankWindowsTest, AWindowIsOpenUntilItIsClosed) {
  EXPECT_EQ(GetView(1), State::kNotYet);
  ASSERT_TRUE(Open(1, 100, buffer_).ok());
  EXPECT_EQ(GetView(1), State::kOpen);
  const auto found = windows_.Find({.number = 1, .offset = 10, .bytes = 90});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->memory.address(), memory_.data() + 10);
  EXPECT_FALSE(windows_.Find({.number = 1, .offset = 10, .bytes = 91}).ok());
  EXPECT_TRUE(windows_.Close(1).ok());
  EXPECT_FALSE(windows_.Close(1).ok());
  EXPECT_EQ(GetView(1), State::kGone);
}

TEST_F(RankWindowsTest, AFailedRegistrationUsesItsNumber) {
  const uint64_t before = windows_.changes();
  EXPECT_TRUE(Open(1, 0, 0).ok()) << "the registration failed in the process";
  EXPECT_FALSE(Open(2, 100, buffer_ + 1).ok()) << "no such buffer";
  EXPECT_FALSE(Open(3, memory_.size() + 1, buffer_).ok()) << "it exceeds the buffer";
  EXPECT_EQ(windows_.changes(), before + 3) << "waiting puts check them";
  for (uint64_t number : {1, 2, 3}) {
    EXPECT_EQ(GetView(number), State::kGone) << number;
    const auto found = windows_.Find({.number = number, .offset = 0, .bytes = 1});
    EXPECT_THAT(found.status().message(), HasSubstr("its registration failed"));
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
  const auto found = windows_.Find({.number = 1, .offset = 0, .bytes = 1});
  EXPECT_THAT(found.status().message(), HasSubstr("cannot map"));
}

}  // namespace rank_windows_test
}  // namespace mccs
