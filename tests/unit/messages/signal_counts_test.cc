#include "service/messages/signal_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace mccs {
namespace signal_counts_test {

using testing::ElementsAre;

constexpr Rank kOne(1), kTwo(2);
constexpr RankPair kPair{kOne, kTwo};

class SignalCountsTest : public testing::Test {
 protected:
  // A wait of the pair's destination, numbered in the order of the calls.
  void Wait(const RankPair& pair, uint32_t signal, uint64_t awaited) {
    PostedMessage& call = calls_.emplace_back();
    call.kind = OpKind::kWaitSignal;
    call.signal = signal;
    call.awaited = awaited;
    counts_.Wait({.call = &calls_.back(), .pair = pair, .number = calls_.size()});
  }
  void Count(const RankPair& pair, uint32_t signal, int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(counts_.Count(pair, signal).ok());
  }
  std::vector<uint64_t> Complete() {
    std::vector<OpenMessage> done;
    counts_.TakeComplete(done);
    std::vector<uint64_t> numbers;
    for (const OpenMessage& wait : done) numbers.push_back(wait.number);
    return numbers;
  }

  SignalCounts counts_;
  std::deque<PostedMessage> calls_;
};

TEST_F(SignalCountsTest, WaitConsumesEarlierSignals) {
  Count(kPair, 0, 5);
  Wait(kPair, 0, 3);
  EXPECT_THAT(Complete(), ElementsAre(1));
  Wait(kPair, 0, 3);
  EXPECT_THAT(Complete(), ElementsAre());
  Count(kPair, 0, 1);
  EXPECT_THAT(Complete(), ElementsAre(2));
}

TEST_F(SignalCountsTest, WaitCompletesWithItsLastSignal) {
  Wait(kPair, 0, 3);
  Count(kPair, 0, 2);
  EXPECT_THAT(Complete(), ElementsAre());
  Count(kPair, 0, 1);
  EXPECT_THAT(Complete(), ElementsAre(1));
}

TEST_F(SignalCountsTest, WaitsOfOneCounterCompleteInOrder) {
  Wait(kPair, 0, 4);
  Wait(kPair, 0, 1);
  Count(kPair, 0, 3);
  EXPECT_THAT(Complete(), ElementsAre());  // The signals would suffice for the second one.
  Count(kPair, 0, 2);
  EXPECT_THAT(Complete(), ElementsAre(1, 2));
}

TEST_F(SignalCountsTest, WaitForZeroSignalsIsComplete) {
  Wait(kPair, 0, 0);
  EXPECT_THAT(Complete(), ElementsAre(1));
}

TEST_F(SignalCountsTest, DistinguishesPairsDirectionsAndSignals) {
  Wait(kPair, 7, 1);
  Count({kTwo, kOne}, 7, 1);
  Count({kTwo, kTwo}, 7, 1);
  Count(kPair, 8, 1);
  EXPECT_THAT(Complete(), ElementsAre());
  Count(kPair, 7, 1);
  EXPECT_THAT(Complete(), ElementsAre(1));
}

TEST_F(SignalCountsTest, ReportsWaitForDepartedRankWithoutMoreSignals) {
  const std::vector<MessageCount> gave_one = {{.peer = kTwo, .signals = 1}};
  Wait(kPair, 0, 1);
  EXPECT_EQ(counts_.Unmatched(kOne, gave_one), nullptr) << "it may still arrive";
  Count(kPair, 0, 1);
  EXPECT_EQ(counts_.Unmatched(kOne, gave_one), nullptr);
  Wait(kPair, 0, 1);
  ASSERT_NE(counts_.Unmatched(kOne, gave_one), nullptr);
  EXPECT_EQ(counts_.Unmatched(kOne, gave_one)->number, 2u);
  EXPECT_EQ(counts_.Unmatched(kTwo, {}), nullptr);
}

// The signal that has not arrived may be late: its put waits to be copied into the window.
TEST_F(SignalCountsTest, ReportsWaitForDepartedRankBeforeItsLastSignalArrives) {
  Wait(kPair, 0, 3);
  const std::vector<MessageCount> gave_two = {{.peer = kTwo, .signals = 2}};
  EXPECT_NE(counts_.Unmatched(kOne, gave_two), nullptr);
  Count(kPair, 0, 1);
  EXPECT_NE(counts_.Unmatched(kOne, gave_two), nullptr);
  const std::vector<MessageCount> gave_three = {{.peer = kTwo, .signals = 3}};
  EXPECT_EQ(counts_.Unmatched(kOne, gave_three), nullptr);
}

// The cost of a check depends on the pairs of ranks, not on the number of signals.
TEST_F(SignalCountsTest, ReportsOldestWaitOfEachPair) {
  for (uint32_t signal = 4000; signal > 0; --signal) Wait(kPair, signal, 1);
  Wait({kTwo, kOne}, 7, 1);
  const auto unmatched = [&] {
    std::vector<OpenMessage> waits;
    counts_.AddUnmatched(waits);
    std::vector<uint64_t> numbers;
    for (const OpenMessage& wait : waits) numbers.push_back(wait.number);
    return numbers;
  };
  EXPECT_THAT(unmatched(), testing::UnorderedElementsAre(1, 4001));
  Count(kPair, 4000, 1);
  EXPECT_THAT(unmatched(), testing::UnorderedElementsAre(2, 4001));
}

TEST_F(SignalCountsTest, ReportsWaitForDepartedRankWithoutSignals) {
  Wait(kPair, 0, 1);
  EXPECT_NE(counts_.Unmatched(kOne, {}), nullptr);
}

}  // namespace signal_counts_test
}  // namespace mccs
