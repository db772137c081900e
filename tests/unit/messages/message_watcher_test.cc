// The checks for stalled messages of a rank with very many of them.
#include "service/messages/message_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "service/device/cpu_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/messages/listed_messages.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace message_watcher_test {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kHosts = 20;
constexpr int kRanksOnHost = 1000;
constexpr int64_t kWarnNs = 8 * kNsPerMs;
constexpr int64_t kPeriodNs = kWarnNs / 4;

// Rank 0 is alone on its host. It sends to ranks that post no receive.
class MessageWatcherTest : public testing::Test {
 protected:
  MessageWatcherTest() : host_of_{HostIndex(0)} {
    for (int host = 1; host <= kHosts; ++host) {
      host_of_.insert(host_of_.end(), kRanksOnHost, HostIndex(host));
    }
    loop_ = std::make_unique<MessageLoop>(
        device_,
        MessageLoop::Options{.host_of = host_of_,
                             .hosts = kHosts + 1,
                             .self = HostIndex(0),
                             .slice_bytes = 256,
                             .open_lane = [](HostIndex, int) -> SendLane* { return nullptr; },
                             .home_of = [](const RankPair&) { return 0; },
                             .tally = &tally_},
        ranks_);
  }

  void SendTo(int first, int end) {
    for (int peer = first; peer < end; ++peer) port_.Post(OpKind::kSend, peer);
    while (port_.taken < port_.calls.size()) ASSERT_TRUE(loop_->Poll().ok());
  }
  // Runs one check. Returns the number of its turns.
  int Check() {
    int turns = 0;
    do {
      const int64_t before = watcher_.cost();
      changed_ = watcher_.Poll(now_, *loop_);
      dearest_ = std::max(dearest_, watcher_.cost() - before);
      ++turns;
    } while (watcher_.NextDeadline() <= now_);
    now_ += kPeriodNs;
    return turns;
  }

  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  ListedMessages port_;
  const std::vector<LocalRank> ranks_{{Rank(0), &port_}};
  std::vector<HostIndex> host_of_;
  WorkTally tally_{std::make_shared<TenantCounters>()};
  std::unique_ptr<MessageLoop> loop_;
  RecordingLog log_;
  MessageWatcher watcher_{
      {.log = &log_, .name = "c", .warn_after_ns = kWarnNs, .host_of = [](Rank) { return "h"; }}};
  MonotonicNs now_ = kNsPerSec;
  bool changed_ = false;
  int64_t dearest_ = 0;  // turn of the checks so far
};

TEST_F(MessageWatcherTest, ACheckOfManyCallsTakesSeveralTurns) {
  SendTo(1, kHosts * kRanksOnHost + 1);
  EXPECT_GE(Check(), kHosts / 2);
  EXPECT_GT(dearest_, 0);
  EXPECT_LT(dearest_, 8 << 20) << "more than about 0.8 ms";
}

TEST_F(MessageWatcherTest, WatchesSomeOfVeryMany) {
  SendTo(1, kHosts * kRanksOnHost + 1);
  for (int check = 0; check < 5; ++check) Check();
  EXPECT_THAT(watcher_.stalled_on(),
              HasSubstr("; and at least 16992 more point-to-point calls wait"));
}

TEST_F(MessageWatcherTest, NamesTheFirstOfManyAndTheirNumber) {
  SendTo(1, 10 * kRanksOnHost + 1);
  for (int check = 0; check < 4; ++check) {
    Check();
    EXPECT_EQ(watcher_.stalled_on(), "");
  }
  Check();
  EXPECT_TRUE(changed_);
  EXPECT_THAT(watcher_.stalled_on(), StartsWith("rank 0 waits for rank 1 on h"));
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("rank 0 waits for rank 8 on h"));
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("; and 9992 more point-to-point calls wait"));
  EXPECT_EQ(watcher_.awaited().size(), 8u);
  Check();
  EXPECT_FALSE(changed_) << "the same calls wait";
}

TEST_F(MessageWatcherTest, CountsTheTimeOfEachCall) {
  SendTo(5, 6);
  Check();
  SendTo(6, 7);
  for (int check = 0; check < 4; ++check) Check();
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("waits for rank 5"));
  EXPECT_THAT(watcher_.stalled_on(), testing::Not(HasSubstr("waits for rank 6")));
  Check();
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("waits for rank 6"));
}

}  // namespace message_watcher_test
}  // namespace mccs
