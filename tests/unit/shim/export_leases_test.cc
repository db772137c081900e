#include "shim/export_leases.h"

#include <gtest/gtest.h>

namespace mccs::shim {
namespace export_leases_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = ExportLeases::Clock;

constexpr AddressRange kSome{0x1000, 0x100};

class ExportLeasesTest : public testing::Test {
 protected:
  ExportLeasesTest() { leases_.Start(now_); }

  // Polls at the returned times for this long; true if exports may end.
  bool MayEndWithin(milliseconds time) {
    const Clock::time_point end = now_ + time;
    while (now_ <= end) {
      const ExportLeases::Step step = leases_.Poll(now_);
      if (step.may_end) return true;
      EXPECT_GT(step.next, now_);
      now_ = step.next;
    }
    return false;
  }
  bool HasEnded(const ExportLeases::Use& use) { return leases_.HasEnded(use, kSome, now_); }

  ExportLeases leases_{seconds(10)};
  Clock::time_point now_ = Clock::now();
  std::mutex submit_;
};

TEST_F(ExportLeasesTest, WhatNobodyUsesEndsBetweenOneLeaseAndTwo) {
  const ExportLeases::Use use{leases_.generation(), now_};
  const Clock::time_point start = now_;
  bool ended = false;
  while (!ended && now_ < start + seconds(60)) {
    ASSERT_TRUE(MayEndWithin(seconds(60)));
    ended = HasEnded(use);
    leases_.RoundDone(now_);
  }
  EXPECT_GE(now_ - start, seconds(10));
  EXPECT_LE(now_ - start, seconds(20));
}

TEST_F(ExportLeasesTest, WhatIsUsedGoesOn) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(MayEndWithin(seconds(60)));
    EXPECT_FALSE(HasEnded({leases_.generation(), now_ - seconds(1000)})) << "used in this round";
    EXPECT_FALSE(HasEnded({leases_.generation() - 1, now_ - seconds(9)})) << "used a moment ago";
    leases_.RoundDone(now_);
  }
}

TEST_F(ExportLeasesTest, CallsThatAreNotPostedHoldUpTheEnd) {
  UnpostedCalls calls(leases_, submit_);
  calls.Add();
  EXPECT_FALSE(MayEndWithin(seconds(100)));
  calls.Posted(1);
  EXPECT_TRUE(MayEndWithin(seconds(6)));
}

TEST_F(ExportLeasesTest, ACommunicatorIsWaitedForUntilItHasBeenSeenOnceWithoutCalls) {
  UnpostedCalls first(leases_, submit_);
  std::mutex other_submit;
  UnpostedCalls second(leases_, other_submit);
  second.Add();
  EXPECT_FALSE(MayEndWithin(milliseconds(5050)));
  first.Add();  // looked up in the new generation: allowed
  second.Posted(1);
  EXPECT_TRUE(MayEndWithin(milliseconds(100)));
}

TEST_F(ExportLeasesTest, OneThatIsPostingIsAskedAgain) {
  UnpostedCalls calls(leases_, submit_);
  submit_.lock();
  EXPECT_FALSE(MayEndWithin(seconds(100)));
  submit_.unlock();
  EXPECT_TRUE(MayEndWithin(seconds(6)));
}

// A free that was seen begins a generation of its own, in which no communicator was checked.
TEST_F(ExportLeasesTest, OnlyTheGenerationThatWasAskedForCounts) {
  UnpostedCalls calls(leases_, submit_);
  ASSERT_TRUE(MayEndWithin(seconds(60)));
  const ExportLeases::Use use{leases_.generation(), now_ - seconds(1000)};
  leases_.BeginGeneration();
  EXPECT_FALSE(HasEnded(use));
}

TEST_F(ExportLeasesTest, WhatIsKeptDoesNotEnd) {
  ASSERT_TRUE(MayEndWithin(seconds(60)));
  const ExportLeases::Use old{0, now_ - seconds(1000)};
  const AddressRange inside{0x1010, 1};
  const AddressRange beside{0x1100, 1};
  leases_.Keep(inside);
  leases_.Keep(inside);
  leases_.Keep(beside);
  EXPECT_FALSE(HasEnded(old));
  leases_.EndKeep(inside);
  EXPECT_FALSE(HasEnded(old)) << "kept twice, ended once";
  leases_.EndKeep(inside);
  EXPECT_TRUE(HasEnded(old));
  leases_.EndKeep(inside);  // of a range that is not kept
}

TEST(AddressRanges, OverlapWhereTheyShareAByte) {
  EXPECT_TRUE(kSome.Overlaps({0x10ff, 1}));
  EXPECT_TRUE(kSome.Overlaps({0xfff, 2}));
  EXPECT_TRUE(kSome.Overlaps({0, ~uint64_t{0}}));
  EXPECT_FALSE(kSome.Overlaps({0xfff, 1}));
  EXPECT_FALSE(kSome.Overlaps({0x1100, 1000}));
}

}  // namespace export_leases_test
}  // namespace mccs::shim
