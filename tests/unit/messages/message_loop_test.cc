// Messages and puts that exceed the communicator or their memory are rejected, whatever was
// validated before.
#include "service/messages/message_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/device/cpu_device.h"
#include "service/device/gpu/kernel_device.h"
#include "service/executor/executor.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/local_kernel.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/messages/idle_port.h"
#include "tests/unit/messages/listed_messages.h"

namespace mccs {
namespace message_loop_test {

using testing::HasSubstr;

constexpr uint64_t kBytes = 64;

// A rank with one message, and a window of kBytes.
class MessagePort final : public IdlePort {
 public:
  absl::StatusOr<const PostedMessage*> TakeMessage() override {
    return std::exchange(posted, nullptr);
  }
  void CompleteMessage(const PostedMessage&) override { complete = true; }
  WindowView GetWindow(uint64_t) const override {
    return {.state = WindowView::State::kOpen, .bytes = kBytes};
  }
  absl::StatusOr<WindowMemory> FindInWindow(const WindowPart&) const override {
    const RegionSpan window =
        window_region == nullptr ? SpanAt(memory.data(), window_bytes) : WholeOf(*window_region);
    return WindowMemory{.memory = window, .process = process, .hold = {}};
  }

  void Post(OpKind kind, int peer, uint64_t bytes = kBytes) {
    call = {.kind = kind,
            .type = DataType::kInt8,
            .peer = Rank(peer),
            .count = bytes,
            .memory = SpanAt(memory.data(), kBytes),
            .window = 1};
    posted = &call;
  }

  PostedMessage call;
  const PostedMessage* posted = nullptr;
  bool complete = false;
  uint64_t window_bytes = kBytes;
  const Region* window_region = nullptr;  // instead of `memory`
  GpuAddressSpace* process = nullptr;
  KernelQueue* queue = nullptr;
  mutable std::vector<std::byte> memory = std::vector<std::byte>(2 * kBytes, std::byte{1});
};

class MessageLoopTest : public testing::Test {
 protected:
  absl::Status Run() {
    for (int turn = 0; turn < 100 && !ports_[0].complete; ++turn) {
      if (const auto moved = loop_.Poll(); !moved.ok()) return moved.status();
      DispatchFinished(device_);
    }
    return absl::OkStatus();
  }
  std::string Rejection() {
    const absl::Status status = Run();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_FALSE(ports_[0].complete);
    return std::string(status.message());
  }

  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  std::vector<MessagePort> ports_ = std::vector<MessagePort>(2);
  const std::vector<LocalRank> ranks_{{Rank(0), &ports_[0]}, {Rank(1), &ports_[1]}};
  const std::vector<HostIndex> host_of_{HostIndex(0), HostIndex(0)};
  WorkTally tally_{std::make_shared<TenantCounters>()};
  MessageLoop loop_{device_,
                    {.host_of = host_of_,
                     .hosts = 1,
                     .self = HostIndex(0),
                     .slice_bytes = 256,
                     .open_lane = [](HostIndex, int) -> SendLane* { return nullptr; },
                     .tally = &tally_},
                    ranks_};
};

TEST_F(MessageLoopTest, TransfersMessageWithinItsBuffer) {
  ports_[1].memory.assign(2 * kBytes, std::byte{2});
  ports_[0].Post(OpKind::kRecv, 1);
  ports_[1].Post(OpKind::kSend, 0);
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(ports_[0].complete);
  EXPECT_EQ(ports_[0].memory[kBytes - 1], std::byte{2});
  EXPECT_EQ(ports_[0].memory[kBytes], std::byte{1});
}

TEST_F(MessageLoopTest, RejectsInvalidPeer) {
  for (const OpKind kind :
       {OpKind::kSend, OpKind::kRecv, OpKind::kPut, OpKind::kSignal, OpKind::kWaitSignal}) {
    for (const int peer : {-1, 2, 1'000'000}) {
      ports_[0].Post(kind, peer);
      EXPECT_THAT(Rejection(), HasSubstr("the communicator has 2 ranks"));
    }
  }
}

TEST_F(MessageLoopTest, RejectsMessageBeyondItsBuffer) {
  for (const OpKind kind : {OpKind::kSend, OpKind::kRecv, OpKind::kPut}) {
    ports_[0].Post(kind, 1, kBytes + 1);
    EXPECT_THAT(Rejection(), HasSubstr("65 bytes exceed its buffer of 64 bytes"));
  }
}

TEST_F(MessageLoopTest, RejectsPutBeyondItsWindow) {
  ports_[1].window_bytes = kBytes - 1;
  ports_[0].Post(OpKind::kPut, 1);
  EXPECT_THAT(Rejection(), HasSubstr("window #1 has only 63 bytes"));
  EXPECT_EQ(ports_[1].memory[0], std::byte{1});
}

// ---- Work per turn ------------------------------------------------------------------------------

// A tenant chooses how many waits one signal completes.
TEST(MessageTurns, OneTurnCompletesALimitedNumberOfWaits) {
  constexpr size_t kWaits = 5000;
  CpuDevice device({.workers = 0}, std::make_unique<LocalImporter>());
  ListedMessages port;
  const std::vector<LocalRank> ranks{{Rank(0), &port}};
  const std::vector<HostIndex> host_of{HostIndex(0)};
  WorkTally tally(std::make_shared<TenantCounters>());
  MessageLoop loop(device,
                   {.host_of = host_of,
                    .hosts = 1,
                    .self = HostIndex(0),
                    .slice_bytes = 256,
                    .open_lane = [](HostIndex, int) -> SendLane* { return nullptr; },
                    .tally = &tally},
                   ranks);
  port.Post(OpKind::kWaitSignal, 0, 1);
  for (size_t i = 1; i < kWaits; ++i) port.Post(OpKind::kWaitSignal, 0);
  port.Post(OpKind::kSignal, 0);
  for (bool moved = true; moved;) {
    const size_t before = port.complete;
    const absl::StatusOr<bool> polled = loop.Poll();
    ASSERT_TRUE(polled.ok()) << polled.status();
    moved = *polled;
    EXPECT_LE(port.complete - before, SignalCounts::kCompletePerTurn + 1) << "and the signal";
  }
  EXPECT_FALSE(port.HasMessages()) << "the engine would rest with work left";
}

// ---- Memory that the daemon has not mapped ------------------------------------------------------

// A buffer on a GPU.
class GpuBuffer final : public Region {
 public:
  explicit GpuBuffer(std::byte value)
      : Region(RegionKind::kTenant, nullptr, kBytes), memory(kBytes, value) {}
  std::vector<std::byte> memory;
};

class OnGpuTest : public testing::Test {
 protected:
  OnGpuTest() {
    for (const GpuBuffer* buffer : {&from_, &to_})
      kernel_.Place(*buffer, const_cast<std::byte*>(buffer->memory.data()));
  }
  void Post(MessagePort& port, OpKind kind, int peer, const Region& memory) {
    port.Post(kind, peer);
    port.call.memory = WholeOf(memory);
    port.call.kernel.queue = port.queue;
  }
  absl::Status Run() {
    for (int turn = 0; turn < 100 && !ports_[0].complete; ++turn) {
      if (const auto moved = loop_.Poll(); !moved.ok()) return moved.status();
      DispatchFinished(device_);
      kernel_.Advance();
    }
    EXPECT_TRUE(ports_[0].complete);
    return absl::OkStatus();
  }

  static constexpr std::byte kImage[1] = {};
  CpuDevice host_{{.workers = 0}, std::make_unique<LocalImporter>()};
  KernelDevice device_{host_, *MakeKernelImage(kImage, "none")};
  LocalKernel kernel_;
  GpuBuffer from_{std::byte{1}}, to_{std::byte{2}};
  const OwnedMemory staged_{std::vector<std::byte>(kBytes, std::byte{3})};
  std::vector<MessagePort> ports_ = std::vector<MessagePort>(2);
  const std::vector<LocalRank> ranks_{{Rank(0), &ports_[0]}, {Rank(1), &ports_[1]}};
  const std::vector<HostIndex> host_of_{HostIndex(0), HostIndex(0), HostIndex(1)};
  WorkTally tally_{std::make_shared<TenantCounters>()};
  MessageLoop loop_{device_,
                    {.host_of = host_of_,
                     .hosts = 2,
                     .self = HostIndex(0),
                     .slice_bytes = 256,
                     .open_lane = [](HostIndex, int) -> SendLane* { return nullptr; },
                     .tally = &tally_},
                    ranks_};
};

TEST_F(OnGpuTest, AKernelOfEitherRankCopiesAMessage) {
  for (const size_t runner : {0u, 1u}) {
    for (MessagePort& port : ports_) {
      port.complete = false;
      port.queue = nullptr;
    }
    ports_[runner].queue = &kernel_.queue();
    to_.memory.assign(kBytes, std::byte{0});
    Post(ports_[0], OpKind::kSend, 1, from_);
    Post(ports_[1], OpKind::kRecv, 0, to_);
    ASSERT_TRUE(Run().ok());
    EXPECT_EQ(to_.memory, from_.memory);
  }
  EXPECT_EQ(kernel_.shared().published, 2u);
}

TEST_F(OnGpuTest, TheDaemonCopiesMemoryThatItHasMapped) {
  const OwnedMemory target(std::vector<std::byte>(kBytes, std::byte{0}));
  for (MessagePort& port : ports_) port.queue = &kernel_.queue();
  Post(ports_[0], OpKind::kSend, 1, staged_);
  Post(ports_[1], OpKind::kRecv, 0, target);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(target.span()[0], std::byte{3});
  EXPECT_EQ(kernel_.shared().published, 0u);
}

// The daemon must not follow a null address, whatever a call names.
TEST_F(OnGpuTest, AMessageThatNothingCanCopyIsRejected) {
  Post(ports_[0], OpKind::kSend, 1, from_);
  Post(ports_[1], OpKind::kRecv, 0, staged_);
  EXPECT_THAT(Run().message(), HasSubstr("memory on a GPU"));
}

TEST_F(OnGpuTest, AMessageToAnotherHostIsRejected) {
  ports_[0].queue = &kernel_.queue();
  Post(ports_[0], OpKind::kSend, 2, from_);
  EXPECT_THAT(Run().message(), HasSubstr("memory on a GPU"));
}

TEST_F(OnGpuTest, APutIsCopiedByAKernel) {
  ports_[0].queue = &kernel_.queue();
  ports_[1].window_region = &to_;
  Post(ports_[0], OpKind::kPut, 1, from_);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(to_.memory, from_.memory);
}

TEST_F(OnGpuTest, APutOfARankWithoutKernelsIsCopiedByTheWindowsProcess) {
  ports_[1].window_region = &to_;
  ports_[1].process = &kernel_;
  Post(ports_[0], OpKind::kPut, 1, staged_);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(to_.memory[kBytes - 1], std::byte{3});
  EXPECT_EQ(kernel_.shared().published, 0u);
}

TEST_F(OnGpuTest, APutThatNothingCanCopyIsRejected) {
  ports_[1].window_region = &to_;
  ports_[1].process = &kernel_;
  Post(ports_[0], OpKind::kPut, 1, from_);
  EXPECT_THAT(Run().message(), HasSubstr("memory on a GPU"));
}

}  // namespace message_loop_test
}  // namespace mccs
