// The daemon's end of a command queue: when a command also has a short form.
#include "service/device/gpu/kernel_queue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gtest/gtest.h"
#include "kernels/words.h"
#include "tests/unit/device/local_kernel.h"

namespace mccs {
namespace kernel_queue_test {

class KernelQueueTest : public ::testing::Test {
 protected:
  void Begin(uint64_t first) {
    shared_.published = shared_.finished = first;
    queue_.emplace(process_, shared_, first);
  }
  void Publish(uint64_t done_value = 0) {
    const uint64_t number = queue_->Reserve();
    kernels::Command command{};
    command.done_value = done_value;
    queue_->Publish(number, command, short_form_);
  }
  void Finish(uint64_t commands) { kernels::StoreWord(&shared_.finished, commands); }
  // The first 8 bytes of short command `number`; 0: it has no lines.
  uint64_t FirstLine(uint64_t number) const {
    uint64_t data = 0;
    const bool has = kernels::LoadLine(&shared_.short_command[0], kernels::ShortFlag(number), data);
    return has ? data : 0;
  }

  bool Finished(uint64_t number) { return queue_->Finished(number); }

  kernels::CommandQueue shared_{};
  std::optional<KernelQueue> queue_;

 private:
  LocalKernel process_;
  alignas(8) const std::array<std::byte, 24> short_form_{std::byte{9}};
};

TEST_F(KernelQueueTest, WritesTheLinesOfAShortCommand) {
  Begin(0);
  Publish();
  EXPECT_EQ(FirstLine(0), 9u);
}

TEST_F(KernelQueueTest, KeepsTheLinesOfACommandThatMayStillBeRead) {
  Begin(0);
  Publish();
  Publish();
  EXPECT_EQ(FirstLine(0), 9u);
  Finish(2);
  Publish();
  EXPECT_EQ(FirstLine(2), 9u);
}

// After 2^32 commands their flags are used again.
TEST_F(KernelQueueTest, NoLineKeepsAFlagThatIsUsedAgain) {
  constexpr uint64_t kLast = 0xfffffffe;
  Begin(kLast);
  Publish();
  EXPECT_EQ(FirstLine(kLast), 9u);
  Finish(kLast + 1);
  Publish();  // its flag would be 0
  EXPECT_TRUE(std::ranges::all_of(shared_.short_command, [](const kernels::LowLatencyLine& line) {
    return line.halves[0] == 0 && line.halves[1] == 0;
  }));
  Finish(kLast + 2);
  Publish();
  EXPECT_EQ(FirstLine(kLast + 2), 9u);
}

// Kernels of earlier calls on the queue still run.
TEST_F(KernelQueueTest, AKernelThatIsNotLaunchedEndsItsOwnCommandsAndLaterOnes) {
  Begin(0);
  for (const uint64_t call : {5, 6, 7}) Publish(call);
  queue_->EndFrom(6);
  EXPECT_FALSE(Finished(0));
  EXPECT_TRUE(queue_->RunsCommand(0));
  EXPECT_TRUE(Finished(1) && Finished(2));
  EXPECT_FALSE(queue_->RunsCommand(1) || queue_->RunsCommand(2));
  EXPECT_TRUE(queue_->Runs(5));
  EXPECT_FALSE(queue_->Runs(6));
  shared_.commands[0].done_value = 9;  // as a tenant may
  EXPECT_FALSE(Finished(0));
  Finish(1);
  EXPECT_TRUE(Finished(0));
  EXPECT_TRUE(queue_->RunsCommand(0));
  queue_->EndFrom(8);
  EXPECT_FALSE(queue_->Runs(6)) << "the first one counts";
  queue_->End();
  EXPECT_FALSE(queue_->Runs(5));
}

}  // namespace kernel_queue_test
}  // namespace mccs
