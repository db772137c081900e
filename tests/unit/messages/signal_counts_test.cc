#include "service/messages/signal_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
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

TEST_F(SignalCountsTest, ReportsWaitForMoreSignalsThanADepartedRankHasSent) {
  Wait(kPair, 0, 3);
  const std::vector<MessageCount> gave_two = {{.peer = kTwo, .signals = 2}};
  const std::vector<MessageCount> gave_three = {{.peer = kTwo, .signals = 3}};
  for (int arrived = 0; arrived < 3; ++arrived) {
    ASSERT_NE(counts_.Unmatched(kOne, gave_two), nullptr) << arrived;
    EXPECT_EQ(counts_.Unmatched(kOne, gave_two)->number, 1u);
    EXPECT_EQ(counts_.Unmatched(kOne, gave_three), nullptr) << "the others are to come";
    EXPECT_EQ(counts_.Unmatched(kTwo, {}), nullptr);
    Count(kPair, 0, 1);
  }
}

// Signals of other numbers have used up what the rank sent.
TEST_F(SignalCountsTest, ReportsWaitForADepartedRanksSignalThatWasAnotherOne) {
  Wait(kPair, 5, 1);
  Count(kPair, 6, 1);
  EXPECT_NE(counts_.Unmatched(kOne, {{.peer = kTwo, .signals = 1}}), nullptr);
}

// A tenant chooses how many waits one signal completes.
TEST_F(SignalCountsTest, OneTurnCompletesALimitedNumberOfWaits) {
  constexpr size_t kWaits = 1000;
  Wait(kPair, 0, 1);
  for (size_t i = 1; i < kWaits; ++i) Wait(kPair, 0, 0);
  EXPECT_THAT(Complete(), ElementsAre());
  Count(kPair, 0, 1);
  std::vector<uint64_t> all;
  for (std::vector<uint64_t> some = Complete(); !some.empty(); some = Complete()) {
    EXPECT_LE(some.size(), SignalCounts::kCompletePerTurn);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::vector<uint64_t> expected(kWaits);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(all, expected);
}

TEST_F(SignalCountsTest, WaitsBehindThoseOfOtherCountersAreNotForgotten) {
  constexpr size_t kMany = 2 * SignalCounts::kCompletePerTurn;
  Wait(kPair, 0, 1);
  for (size_t i = 0; i < kMany; ++i) Wait(kPair, 0, 0);
  Wait(kPair, 1, 1);
  Wait({kTwo, kOne}, 1, 2);
  Count(kPair, 0, 1);
  Count(kPair, 1, 1);
  Count({kTwo, kOne}, 1, 3);
  EXPECT_EQ(counts_.Unmatched(kTwo, {}), nullptr) << "its signals have arrived";
  Wait(kPair, 1, 0);
  size_t complete = 0;
  for (size_t some = Complete().size(); some > 0; some = Complete().size()) complete += some;
  EXPECT_EQ(complete, kMany + 4);
}

// The cost of a check depends on the pairs of ranks, not on the number of signals.
TEST_F(SignalCountsTest, ReportsOldestWaitOfEachPair) {
  for (uint32_t signal = 4000; signal > 0; --signal) Wait(kPair, signal, 1);
  Wait({kTwo, kOne}, 7, 1);
  const auto unmatched = [&] {
    WaitingCalls waits;
    counts_.AddUnmatched(waits);
    std::vector<uint64_t> numbers;
    for (const OpenMessage& wait : waits.calls()) numbers.push_back(wait.number);
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
