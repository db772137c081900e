// Calls whose buffers fit another communicator than the one that runs them: the loop checks them
// against the layout and each rank's buffers, whatever was validated before.
#include "service/communicator/schedule/operation_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/device/cpu_device.h"
#include "tests/unit/communicator/single_host_loop.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/mentions.h"
#include "tests/unit/messages/idle_port.h"

namespace mccs {
namespace operation_loop_test {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr uint64_t kCount = 16;
constexpr uint64_t kBlock = kCount * sizeof(int32_t);

// A rank with one call, and buffers large enough for any call of kRanks ranks.
class CallingPort final : public IdlePort {
 public:
  CallingPort() { std::iota(input.begin(), input.end(), 0); }
  absl::StatusOr<const PostedOperation*> Posted(size_t position) override {
    return position > 0 || (complete && !repeats) ? nullptr : &call;
  }
  bool IsReady(size_t) override { return true; }
  void Complete() override { complete = true; }

  PostedOperation call;
  bool complete = false;
  bool repeats = false;  // another call follows each one
  std::vector<int32_t> input = std::vector<int32_t>(kRanks * kCount);
  std::vector<int32_t> output = std::vector<int32_t>(kRanks * kCount, -1);
};

class OperationLoopTest : public testing::Test {
 protected:
  void Call(OpKind kind, int root, uint64_t count = kCount) {
    for (CallingPort& port : ports_) {
      port.call = {.kind = kind,
                   .type = DataType::kInt32,
                   .root = Rank(root),
                   .count = count,
                   .input = SpanOf(port.input),
                   .output = SpanOf(port.output),
                   .options = {}};
    }
  }
  absl::Status Run() {
    for (int turn = 0; turn < 100 && !ports_[0].complete; ++turn) {
      if (const auto moved = loop_->Poll(); !moved.ok()) return moved.status();
      DispatchFinished(device_);
    }
    return absl::OkStatus();
  }
  std::string Rejection() {
    const absl::Status status = Run();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    for (const CallingPort& port : ports_) {
      EXPECT_FALSE(port.complete);
      EXPECT_EQ(port.output, std::vector<int32_t>(kRanks * kCount, -1));
    }
    return std::string(status.message());
  }

  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  std::vector<CallingPort> ports_ = std::vector<CallingPort>(kRanks);
  std::vector<LocalRank> ranks_ = RanksOf(ports_);
  SingleHostLoop host_{device_, ranks_};
  OperationLoop* const loop_ = &host_.loop();
};

// ---- Work per turn ------------------------------------------------------------------------------

// The number of calls that one Poll completes when each rank always has another one.
class ManyCallsTest : public OperationLoopTest {
 protected:
  uint64_t CallsOfOnePoll(uint64_t count) {
    std::vector<int32_t> memory(count);
    Call(OpKind::kAllReduce, 0, count);
    for (CallingPort& port : ports_) {
      port.repeats = true;
      port.call.input = port.call.output = SpanOf(memory);
    }
    uint64_t most = 0;
    for (int turn = 0; turn < 10; ++turn) {
      const uint64_t before = loop_->completed();
      const auto moved = loop_->Poll();
      EXPECT_TRUE(moved.ok() && *moved) << moved.status();
      most = std::max(most, loop_->completed() - before);
    }
    return most;
  }
};

TEST_F(ManyCallsTest, OnePollCompletesALimitedNumberOfSmallCalls) {
  EXPECT_EQ(CallsOfOnePoll(2), static_cast<uint64_t>(OperationLoop::kOperationsPerTurn));
}

TEST_F(ManyCallsTest, OnePollStartsNoCallAfterALimitedNumberOfBytes) {
  // Each reads three inputs and writes three outputs.
  constexpr uint64_t kCallBytes = OperationLoop::kBytesPerTurn / 2;
  EXPECT_EQ(CallsOfOnePoll(kCallBytes / (2 * kRanks * sizeof(int32_t)) + 1), 2u);
}

// ---- Captured collectives -----------------------------------------------------------------------

// A rank whose streams have reached captured collectives 1 to `reached`, of which it has completed
// those in `complete`.
class CapturedPort final : public IdlePort {
 public:
  bool HasCaptured() const override { return reached > complete.size(); }
  uint64_t NextCaptured(uint64_t after) const override {
    ++lookups;
    do {
      ++after;
    } while (complete.contains(after));
    return after <= reached ? after : 0;
  }
  const PostedOperation* Captured(uint64_t key) override {
    ++lookups;
    return key <= reached && !complete.contains(key) ? &call : nullptr;
  }
  void CompleteCaptured(uint64_t key) override { complete.insert(key); }

  PostedOperation call;
  uint64_t reached = 0;
  std::set<uint64_t> complete;
  mutable uint64_t lookups = 0;
};

class CapturedCallsTest : public OperationLoopTest {
 protected:
  static constexpr uint64_t kReached = 1000;

  CapturedCallsTest() {
    for (size_t i = 0; i < captured_.size(); ++i) {
      captured_[i].call = {.kind = OpKind::kAllReduce,
                           .type = DataType::kInt32,
                           .root = Rank(0),
                           .count = kCount,
                           .input = SpanOf(ports_[i].input),
                           .output = SpanOf(ports_[i].output),
                           .options = {}};
      ranks_[i].port = &captured_[i];
    }
    captured_[0].reached = kReached;
  }

  uint64_t Lookups() const {
    uint64_t lookups = 0;
    for (const CapturedPort& port : captured_) lookups += port.lookups;
    return lookups;
  }

  std::vector<CapturedPort> captured_ = std::vector<CapturedPort>(kRanks);
};

// A tenant chooses how many captured collectives one rank has reached and the others have not.
TEST_F(CapturedCallsTest, OnePollLooksAtALimitedNumber) {
  uint64_t before = 0;
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_TRUE(loop_->Poll().ok());
    EXPECT_LE(Lookups() - before, 3 * 1024u);
    before = Lookups();
  }
  EXPECT_EQ(loop_->completed(), 0u);
}

TEST_F(CapturedCallsTest, ManyThatWaitDoNotHoldUpOthers) {
  for (size_t i = 1; i < captured_.size(); ++i) {
    captured_[i].reached = kReached;
    for (uint64_t key = 1; key < kReached; ++key) captured_[i].complete.insert(key);
  }
  for (int turn = 0; turn < 20 && loop_->completed() == 0; ++turn) {
    const auto moved = loop_->Poll();
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_TRUE(*moved) << "the engine would rest with work left";
    DispatchFinished(device_);
  }
  for (const CapturedPort& port : captured_) EXPECT_TRUE(port.complete.contains(kReached));
}

// ---- Checks -------------------------------------------------------------------------------------

TEST_F(OperationLoopTest, RunsCallWithSufficientBuffers) {
  Call(OpKind::kGather, 0);
  ports_[1].call.output.bytes = 0;
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(ports_[0].complete);
  EXPECT_EQ(ports_[0].output[2 * kCount + 1], 1);
}

TEST_F(OperationLoopTest, RejectsGatherBeyondRootOutput) {
  Call(OpKind::kGather, 0);
  ports_[0].call.output.bytes = kRanks * kBlock - 1;
  EXPECT_THAT(Rejection(), Mentions("gather", "count 16", "rank 0", "192 bytes",
                                    "an output of 191 bytes", "at least 64 and 192 bytes"));
}

TEST_F(OperationLoopTest, RejectsScatterBeyondRootInput) {
  Call(OpKind::kScatter, 1);
  ports_[1].call.input.bytes = kBlock;
  EXPECT_THAT(Rejection(), HasSubstr("rank 1 passed an input of 64 bytes"));
}

TEST_F(OperationLoopTest, RejectsBuffersOneByteShort) {
  for (int kind = static_cast<int>(OpKind::kAllReduce); kind <= static_cast<int>(OpKind::kScatter);
       ++kind) {
    const auto op = static_cast<OpKind>(kind);
    SCOPED_TRACE(std::string(Name(op)));
    const CallElements sides = ElementsOf(op, kCount, kRanks, /*is_root=*/true);
    Call(op, 2);
    ports_[2].call.input.bytes = sides.input * sizeof(int32_t) - 1;
    EXPECT_THAT(Rejection(), HasSubstr(absl::StrCat("rank 2 passed an input of ",
                                                    sides.input * sizeof(int32_t) - 1, " bytes")));
    Call(op, 2);
    ports_[2].call.output.bytes = sides.output * sizeof(int32_t) - 1;
    EXPECT_THAT(Rejection(),
                HasSubstr(absl::StrCat("an output of ", sides.output * sizeof(int32_t) - 1,
                                       " bytes; expected at least ")));
  }
}

TEST_F(OperationLoopTest, RejectsInvalidRootAndCount) {
  for (const int root : {-1, kRanks, 1 << 20}) {
    Call(OpKind::kBroadcast, root);
    EXPECT_THAT(Rejection(), HasSubstr("expected 0 to 2"));
  }
  Call(OpKind::kAllGather, 0, /*count=*/kMaxCallBytes / sizeof(int32_t));
  EXPECT_THAT(Rejection(), HasSubstr("too large for 3 ranks"));
}

}  // namespace operation_loop_test
}  // namespace mccs
