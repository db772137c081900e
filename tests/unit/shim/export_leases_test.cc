#include "shim/buffers/export_leases.h"

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
      if (step.may_expire) return true;
      EXPECT_GT(step.next, now_);
      now_ = step.next;
    }
    return false;
  }
  bool HasExpired(const ExportLeases::Use& use) { return leases_.HasExpired(use, kSome, now_); }

  ExportLeases leases_{seconds(10)};
  Clock::time_point now_ = Clock::now();
  std::mutex submit_;
};

TEST_F(ExportLeasesTest, UnusedExportsExpireAfterOneToTwoLeases) {
  const ExportLeases::Use use{leases_.generation(), now_};
  const Clock::time_point start = now_;
  bool ended = false;
  while (!ended && now_ < start + seconds(60)) {
    ASSERT_TRUE(MayEndWithin(seconds(60)));
    ended = HasExpired(use);
    leases_.EndRound(now_);
  }
  EXPECT_GE(now_ - start, seconds(10));
  EXPECT_LE(now_ - start, seconds(20));
}

TEST_F(ExportLeasesTest, UsedExportsStay) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(MayEndWithin(seconds(60)));
    EXPECT_FALSE(HasExpired({leases_.generation(), now_ - seconds(1000)})) << "used in this round";
    EXPECT_FALSE(HasExpired({leases_.generation() - 1, now_ - seconds(9)})) << "used a moment ago";
    leases_.EndRound(now_);
  }
}

TEST_F(ExportLeasesTest, UnpostedCallsDelayExpiry) {
  UnpostedCalls calls(leases_, submit_);
  calls.Add();
  EXPECT_FALSE(MayEndWithin(seconds(100)));
  calls.MarkPosted(1);
  EXPECT_TRUE(MayEndWithin(seconds(6)));
}

TEST_F(ExportLeasesTest, WaitsUntilEachCommunicatorWasSeenWithoutCalls) {
  UnpostedCalls first(leases_, submit_);
  std::mutex other_submit;
  UnpostedCalls second(leases_, other_submit);
  second.Add();
  EXPECT_FALSE(MayEndWithin(milliseconds(5050)));
  first.Add();  // looked up in the new generation: allowed
  second.MarkPosted(1);
  EXPECT_TRUE(MayEndWithin(milliseconds(100)));
}

TEST_F(ExportLeasesTest, PollsAPostingCommunicatorAgain) {
  UnpostedCalls calls(leases_, submit_);
  submit_.lock();
  EXPECT_FALSE(MayEndWithin(seconds(100)));
  submit_.unlock();
  EXPECT_TRUE(MayEndWithin(seconds(6)));
}

// A free that was seen begins a generation of its own, in which no communicator was checked.
TEST_F(ExportLeasesTest, ChecksOnlyTheCurrentGeneration) {
  UnpostedCalls calls(leases_, submit_);
  ASSERT_TRUE(MayEndWithin(seconds(60)));
  const ExportLeases::Use use{leases_.generation(), now_ - seconds(1000)};
  leases_.BeginGeneration();
  EXPECT_FALSE(HasExpired(use));
}

TEST_F(ExportLeasesTest, PinnedExportsStay) {
  ASSERT_TRUE(MayEndWithin(seconds(60)));
  const ExportLeases::Use old{0, now_ - seconds(1000)};
  const AddressRange inside{0x1010, 1};
  const AddressRange beside{0x1100, 1};
  leases_.Pin(inside);
  leases_.Pin(inside);
  leases_.Pin(beside);
  EXPECT_FALSE(HasExpired(old));
  leases_.Unpin(inside);
  EXPECT_FALSE(HasExpired(old)) << "kept twice, ended once";
  leases_.Unpin(inside);
  EXPECT_TRUE(HasExpired(old));
  leases_.Unpin(inside);  // of a range that is not kept
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
