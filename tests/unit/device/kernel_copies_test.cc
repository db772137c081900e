// Copies by the kernel of a rank.
#include "service/device/gpu/kernel_copies.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/unit/device/local_kernel.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace kernel_copies_test {

constexpr size_t kBytes = 3 << 20;  // more than the kernel copies at once

std::vector<std::byte> Filled(size_t bytes, int seed) {
  std::vector<std::byte> memory(bytes);
  for (size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return memory;
}

class KernelCopiesTest : public testing::Test {
 protected:
  void Add(const Region& from, const Region& to, MemToken token) {
    copies_.Add({.from = WholeOf(from), .to = WholeOf(to), .kernel = {.queue = &kernel_.queue()}},
                token);
  }
  void Poll() {
    std::array<Device::Finished, 4> finished;
    const Device::Polled polled = copies_.Poll(finished);
    for (size_t i = 0; i < polled.finished; ++i) {
      order_.push_back(finished[i].token);
      errors_.emplace_back(finished[i].error == nullptr ? "" : finished[i].error->message());
    }
  }
  // Until all copies have ended.
  void RunKernel() {
    for (int i = 0; i < 1000 && !copies_.idle(); ++i) {
      Poll();
      kernel_.Advance();
    }
    Poll();
    EXPECT_TRUE(copies_.idle());
  }

  LocalKernel kernel_;
  KernelCopies copies_;
  std::vector<MemToken> order_;
  std::vector<std::string> errors_;
};

TEST_F(KernelCopiesTest, ACopyMovesAllBytes) {
  const OwnedMemory from(Filled(kBytes, 1)), to(Filled(kBytes, 2));
  Add(from, to, 7);
  Poll();
  EXPECT_TRUE(order_.empty()) << "the process has not mapped the memory yet";
  RunKernel();
  EXPECT_EQ(order_, std::vector<MemToken>{7});
  EXPECT_EQ(errors_, std::vector<std::string>{""});
  EXPECT_TRUE(std::ranges::equal(from.span(), to.span()));
}

TEST_F(KernelCopiesTest, CopiesOfAQueueRunInOrder) {
  const OwnedMemory first(Filled(100, 1)), second(Filled(100, 2)), target(Filled(100, 3));
  Add(first, target, 1);
  Add(second, target, 2);
  RunKernel();
  EXPECT_EQ(order_, (std::vector<MemToken>{1, 2}));
  EXPECT_TRUE(std::ranges::equal(second.span(), target.span()));
}

TEST_F(KernelCopiesTest, WaitingCopiesShareCommands) {
  const OwnedMemory from(Filled(8, 1)), to(Filled(8, 2));
  constexpr MemToken kCopies = 40;
  for (MemToken token = 0; token < kCopies; ++token) Add(from, to, token);
  RunKernel();
  EXPECT_EQ(order_.size(), kCopies);
  EXPECT_TRUE(std::ranges::is_sorted(order_));
  EXPECT_EQ(kernel_.shared().published, 3u);  // of up to 16
}

TEST_F(KernelCopiesTest, MemoryThatCannotBeMappedFailsItsCopyAlone) {
  const OwnedMemory good(Filled(8, 1)), bad(Filled(8, 2)), to(Filled(8, 3));
  kernel_.Reject(bad, absl::FailedPreconditionError("no access to the peer"));
  Add(bad, to, 1);
  Add(good, to, 2);
  RunKernel();
  EXPECT_EQ(order_, (std::vector<MemToken>{1, 2}));
  EXPECT_EQ(errors_, (std::vector<std::string>{"no access to the peer", ""}));
  EXPECT_TRUE(std::ranges::equal(good.span(), to.span()));
}

// The kernel never begins: its stream may wait for something that never comes.
TEST_F(KernelCopiesTest, StoppingEndsCopiesThatHaveNotStarted) {
  const OwnedMemory from(Filled(8, 1)), to(Filled(8, 2));
  Add(from, to, 1);
  Poll();
  kernel_.queue().Stop();
  Poll();
  EXPECT_EQ(order_, std::vector<MemToken>{1});
  EXPECT_NE(errors_[0], "");
  EXPECT_TRUE(copies_.idle());
}

TEST_F(KernelCopiesTest, StoppingEndsARunningCopy) {
  const OwnedMemory from(Filled(kBytes, 1)), to(Filled(kBytes, 2));
  Add(from, to, 1);
  for (int i = 0; i <= LocalKernel::kPollsToMap; ++i) Poll();
  ASSERT_TRUE(kernel_.Advance());  // takes the command, and a piece of it
  kernel_.queue().Stop();
  Poll();
  EXPECT_TRUE(order_.empty()) << "the kernel may still write";
  kernel_.Advance();
  Poll();
  EXPECT_EQ(order_, std::vector<MemToken>{1});
  EXPECT_NE(errors_[0], "");
}

TEST_F(KernelCopiesTest, TheEndOfTheProcessEndsItsCopies) {
  const OwnedMemory from(Filled(8, 1)), to(Filled(8, 2));
  Add(from, to, 1);
  for (int i = 0; i <= LocalKernel::kPollsToMap; ++i) Poll();
  Add(from, to, 2);
  kernel_.Die();
  Poll();
  EXPECT_EQ(order_, (std::vector<MemToken>{1, 2}));
  EXPECT_NE(errors_[0], "");
  EXPECT_NE(errors_[1], "");
}

TEST_F(KernelCopiesTest, AProcessCopiesWithoutAKernel) {
  const OwnedMemory from(Filled(100, 1)), to(Filled(100, 2));
  copies_.Add({.from = WholeOf(from), .to = WholeOf(to), .process = &kernel_}, 7);
  for (int i = 0; i < 20 && !copies_.idle(); ++i) Poll();
  EXPECT_EQ(order_, std::vector<MemToken>{7});
  EXPECT_EQ(errors_, std::vector<std::string>{""});
  EXPECT_TRUE(std::ranges::equal(from.span(), to.span()));
  EXPECT_EQ(kernel_.shared().published, 0u);
}

// Its memory has ended with it: other ranks go on.
TEST_F(KernelCopiesTest, TheEndOfAProcessEndsTheCopiesThatItMakes) {
  const OwnedMemory from(Filled(100, 1)), to(Filled(100, 2));
  copies_.Add({.from = WholeOf(from), .to = WholeOf(to), .process = &kernel_}, 7);
  Poll();
  kernel_.Die();
  Poll();
  EXPECT_EQ(order_, std::vector<MemToken>{7});
  EXPECT_EQ(errors_, std::vector<std::string>{""});
}

// More copies than one turn visits.
TEST_F(KernelCopiesTest, AProcessThatDoesNotAnswerDelaysNoOther) {
  const OwnedMemory from(Filled(100, 1)), to(Filled(100, 2)), other(Filled(100, 3));
  LocalKernel silent;
  silent.HoldCopies();
  for (MemToken token = 1000; token < 2000; ++token)
    copies_.Add({.from = WholeOf(from), .to = WholeOf(to), .process = &silent}, token);
  for (int i = 0; i < 20; ++i) Poll();
  copies_.Add({.from = WholeOf(from), .to = WholeOf(other), .process = &kernel_}, 7);
  for (int i = 0; i < LocalKernel::kPollsToMap + 2; ++i) Poll();
  EXPECT_EQ(order_, std::vector<MemToken>{7});
}

// Also those that wait behind one that the process does not take.
TEST_F(KernelCopiesTest, AbandonedCopiesEndAlthoughTheProcessDoesNotAnswer) {
  const OwnedMemory from(Filled(100, 1)), to(Filled(100, 2));
  LocalKernel silent;
  silent.HoldCopies();
  bool abandoned = false;
  for (MemToken token = 0; token < 200; ++token) {
    copies_.Add({.from = WholeOf(from),
                 .to = WholeOf(to),
                 .process = &silent,
                 .abandoned = token == 0 ? nullptr : &abandoned},
                token);
  }
  for (int i = 0; i < 20; ++i) Poll();
  EXPECT_TRUE(order_.empty());
  abandoned = true;
  for (int i = 0; i < 200; ++i) Poll();
  EXPECT_EQ(order_.size(), 199u);
  EXPECT_FALSE(copies_.idle());
}

}  // namespace kernel_copies_test
}  // namespace mccs
