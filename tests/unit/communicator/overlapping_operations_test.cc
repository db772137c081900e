// Operations of one host on a device that completes them when the test says so: which may start
// while others run, and what an error of a later one does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/communicator/schedule/operation_loop.h"
#include "tests/unit/communicator/listed_calls.h"
#include "tests/unit/communicator/single_host_loop.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/executor/fake_lanes.h"

namespace mccs {
namespace overlapping_operations_test {

using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr uint64_t kCount = ListedCalls::kCount;

class OverlappingOperations : public testing::Test {
 protected:
  // An all-reduce in place over the `at`-th part of each rank's memory.
  void Call(uint64_t at, uint64_t count = kCount) {
    for (ListedCalls& port : ports_) port.Post(at, count);
  }
  // Turns until nothing moves.
  absl::Status Turn() {
    for (;;) {
      const absl::StatusOr<bool> moved = loop_->Poll();
      if (!moved.ok()) return moved.status();
      if (!*moved) return absl::OkStatus();
    }
  }

  ManualDevice device_;
  std::vector<ListedCalls> ports_ = std::vector<ListedCalls>(kRanks);
  std::vector<LocalRank> ranks_ = RanksOf(ports_);
  SingleHostLoop host_{device_, ranks_};
  OperationLoop* const loop_ = &host_.loop();
};

TEST_F(OverlappingOperations, StartTogetherAndCompleteInOrder) {
  for (uint64_t at : {0, 1, 2}) Call(at);
  ASSERT_TRUE(Turn().ok());
  ASSERT_EQ(device_.held(), 3u);
  EXPECT_EQ(loop_->started(), 3u);
  device_.Finish(2);
  device_.Finish(1);
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(ports_[0].complete, 0u) << "the oldest runs";
  device_.Finish();
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(ports_[0].complete, 3u);
  EXPECT_EQ(loop_->state(), LoopState::kIdle);
  EXPECT_EQ(ports_[1].memory[2 * kCount], kRanks);
}

TEST_F(OverlappingOperations, WaitForMemoryThatAnotherOneUses) {
  Call(0, 2 * kCount);
  Call(1);
  Call(5);
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(device_.held(), 1u) << "calls start in order";
  device_.Finish();
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(device_.held(), 2u);
}

TEST_F(OverlappingOperations, WaitForTheirStreams) {
  Call(0);
  Call(1);
  for (ListedCalls& port : ports_) port.ready = 1;
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(device_.held(), 1u);
  for (ListedCalls& port : ports_) port.ready = 2;
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(device_.held(), 2u);
}

TEST_F(OverlappingOperations, LargeOnesRunAlone) {
  std::vector<int32_t> large(OperationLoop::kMaxOverlappingBytes / sizeof(int32_t));
  Call(0);
  for (ListedCalls& port : ports_) {
    port.calls[0].count = large.size();
    port.calls[0].input = port.calls[0].output = SpanOf(large);
  }
  Call(1);
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(loop_->started(), 1u);
}

TEST_F(OverlappingOperations, ReachedCapturedWorkIsNotOvertaken) {
  ports_[1].has_captured = true;
  Call(0);
  Call(1);
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(loop_->started(), 1u);
}

TEST_F(OverlappingOperations, AnInvalidCallEndsNoOlderOne) {
  Call(0);
  Call(1);
  ports_[1].calls[1].output.bytes -= 1;
  ASSERT_TRUE(Turn().ok());
  device_.Finish();
  const absl::Status status = Turn();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 passed"));
  EXPECT_EQ(ports_[0].complete, 1u);
  EXPECT_EQ(ports_[1].complete, 1u);
}

TEST_F(OverlappingOperations, AMismatchEndsNoOlderOne) {
  Call(0);
  Call(1);
  ports_[1].calls[1].kind = OpKind::kBroadcast;
  ASSERT_TRUE(Turn().ok());
  device_.Finish();
  const absl::Status status = Turn();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(ports_[0].complete, 1u);
}

}  // namespace overlapping_operations_test
}  // namespace mccs
