// When a collective that runs on a device of the test counts as stalled. The lanes for which one
// waits are in program_run_test and in the simulator's hang_watcher_test.
#include "service/communicator/schedule/progress_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/communicator/listed_calls.h"
#include "tests/unit/communicator/single_host_loop.h"
#include "tests/unit/executor/fake_lanes.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace progress_watcher_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kAfterNs = ProgressWatcher::kAfterNs;
constexpr int64_t kCheckEveryNs = ProgressWatcher::kCheckEveryNs;

class ProgressWatcherTest : public testing::Test {
 protected:
  ProgressWatcherTest() {
    members_.layout.hosts = {{Rank(0), Rank(1)}};
    members_.roster.add_hosts()->set_name("h0");
    members_.self = members_.leader = HostIndex(0);
  }

  void Call(uint64_t at) {
    for (ListedCalls& port : ports_) port.Post(at);
  }
  // Turns until nothing moves. Returns true if the watcher has news.
  bool Turn() {
    for (;;) {
      const absl::StatusOr<bool> moved = host_.loop().Poll();
      EXPECT_TRUE(moved.ok()) << moved.status();
      if (!moved.ok() || !*moved) break;
    }
    return watcher_.Poll(now_, host_.loop(), ranks_missing_);
  }
  bool TurnAfter(int64_t ns) {
    now_ += ns;
    return Turn();
  }

  ManualDevice device_;
  std::vector<ListedCalls> ports_ = std::vector<ListedCalls>(2);
  std::vector<LocalRank> ranks_ = RanksOf(ports_);
  SingleHostLoop host_{device_, ranks_};
  Membership members_;
  RecordingLog log_;
  ProgressWatcher watcher_{{.members = &members_, .log = &log_, .name = "c"}};
  MonotonicNs now_ = kNsPerSec;
  bool ranks_missing_ = false;
};

TEST_F(ProgressWatcherTest, ReportsAnOperationUntilItProgresses) {
  EXPECT_FALSE(Turn());
  EXPECT_EQ(watcher_.NextDeadline(), kNever);
  Call(0);
  EXPECT_FALSE(Turn());
  ASSERT_EQ(device_.held(), 1u);
  EXPECT_EQ(watcher_.NextDeadline(), now_ + kAfterNs);
  EXPECT_FALSE(TurnAfter(kAfterNs - 1));
  EXPECT_FALSE(TurnAfter(1)) << "a lane may move a part of a slice";
  EXPECT_EQ(watcher_.stalled_on(), "");
  EXPECT_TRUE(TurnAfter(kCheckEveryNs));
  EXPECT_THAT(watcher_.stalled_on(),
              AllOf(HasSubstr("operation #1 (all_reduce #1 count 16"),
                    HasSubstr("makes no progress: the device of h0 is not done")));
  EXPECT_THAT(watcher_.awaited(), ElementsAre(AwaitedHost{"h0", StallCause::kDevice}));
  EXPECT_EQ(log_.Count("makes no progress"), 1u);
  EXPECT_GT(watcher_.NextDeadline(), now_);
  EXPECT_FALSE(TurnAfter(kCheckEveryNs)) << "nothing is new";
  EXPECT_EQ(log_.Count("makes no progress"), 1u);
  device_.Finish();
  EXPECT_TRUE(Turn());
  EXPECT_EQ(watcher_.stalled_on(), "");
  EXPECT_THAT(watcher_.awaited(), IsEmpty());
  EXPECT_EQ(watcher_.NextDeadline(), kNever);
}

TEST_F(ProgressWatcherTest, CountsFromTheLastProgress) {
  Call(0);
  Call(1);
  Turn();
  ASSERT_EQ(device_.held(), 2u);
  now_ += kAfterNs / 2;
  device_.Finish();
  EXPECT_FALSE(Turn());
  EXPECT_FALSE(TurnAfter(kAfterNs - 1));
  EXPECT_EQ(watcher_.NextDeadline(), now_ + 1);
  EXPECT_FALSE(TurnAfter(1));
  EXPECT_TRUE(TurnAfter(kCheckEveryNs));
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("operation #2 "));
}

TEST_F(ProgressWatcherTest, LeavesMissingRanksToTheHangWatcher) {
  Call(0);
  ranks_missing_ = true;
  EXPECT_FALSE(Turn());
  EXPECT_FALSE(TurnAfter(2 * kAfterNs));
  EXPECT_EQ(watcher_.NextDeadline(), kNever);
  ranks_missing_ = false;
  EXPECT_FALSE(Turn());
  EXPECT_FALSE(TurnAfter(kAfterNs - 1)) << "the time with missing ranks does not count";
  EXPECT_FALSE(TurnAfter(1));
  EXPECT_TRUE(TurnAfter(kCheckEveryNs));
}

}  // namespace progress_watcher_test
}  // namespace mccs
