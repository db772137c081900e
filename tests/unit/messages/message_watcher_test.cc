// The checks for stalled messages: of a rank with very many of them, of transfers that make no
// progress, and the times after which a stall is reported, logged and counted.
#include "service/messages/message_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/device/cpu_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/executor/fake_lanes.h"
#include "tests/unit/messages/listed_messages.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace message_watcher_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr int kHosts = 20;
constexpr int kRanksOnHost = 1000;
constexpr int64_t kCheckEveryNs = kStalledAfterNs / 4;

// Rank 0 is alone on its host. The test plays the other hosts.
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
                             .slots = kFakeLaneShape.slots,
                             .open_lane = [this](HostIndex, int) -> SendLane* { return &send_; },
                             .home_of = [](const RankPair&) { return 0; },
                             .tally = &tally_},
        ranks_);
  }

  void SendTo(int first, int end) {
    for (int peer = first; peer < end; ++peer) port_.Post(OpKind::kSend, peer);
    while (port_.taken < port_.calls.size()) ASSERT_TRUE(loop_->Poll().ok());
  }
  // A call with data, of rank 0 with rank 1.
  void Call(OpKind kind) {
    port_.calls.push_back({.kind = kind,
                           .type = DataType::kInt8,
                           .peer = Rank(1),
                           .count = buffer_.size(),
                           .memory = SpanOf(buffer_)});
    Turn();
  }
  void Turn() { ASSERT_TRUE(loop_->Poll().ok()); }
  // Rank 1 of host 1 announces a receive.
  void Announce() {
    loop_->AddLane(HostIndex(1), 0, receive_);
    Arrive({.kind = MessageTag::Kind::kAnnouncement,
            .type = DataType::kInt8,
            .pair = {Rank(0), Rank(1)},
            .number = 1,
            .amount = buffer_.size()});
  }
  void Arrive(const MessageTag& tag, const std::vector<int32_t>& values = {}) {
    ASSERT_TRUE(receive_.Arrive(values, ToTag(tag)));
    Turn();
  }

  // Runs one check. Returns the number of its turns.
  int Check() { return Check(watcher_); }
  int Check(MessageWatcher& watcher) {
    int turns = 0;
    do {
      const int64_t before = watcher.cost();
      changed_ = watcher.Poll(now_, *loop_);
      dearest_ = std::max(dearest_, watcher.cost() - before);
      ++turns;
    } while (watcher.NextDeadline() <= now_);
    return turns;
  }
  // Runs the checks of `ns`, not including the one at its end.
  void CheckFor(int64_t ns) { CheckFor(ns, watcher_); }
  void CheckFor(int64_t ns, MessageWatcher& watcher) {
    for (const MonotonicNs end = now_ + ns; now_ < end;) {
      Check(watcher);
      now_ = std::min(end, watcher.NextDeadline());
    }
  }
  MessageWatcher WatcherWith(int64_t warn_after_ns) {
    return MessageWatcher(
        {.log = &log_,
         .name = "c",
         .warn_after_ns = warn_after_ns,
         .host_of = [this](Rank rank) { return host_of_[static_cast<size_t>(rank.value())]; },
         .name_of = [](HostIndex host) { return absl::StrCat("h", host.value()); }});
  }

  FakeSendLane send_;
  FakeRecvLane receive_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(3 * kFakeLaneShape.slot_bytes);
  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  ListedMessages port_;
  const std::vector<LocalRank> ranks_{{Rank(0), &port_}};
  std::vector<HostIndex> host_of_;
  WorkTally tally_{std::make_shared<TenantCounters>()};
  std::unique_ptr<MessageLoop> loop_;
  RecordingLog log_;
  MessageWatcher watcher_{WatcherWith(kStalledAfterNs)};
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
  CheckFor(kStalledAfterNs);
  Check();
  EXPECT_THAT(watcher_.stalled_on(),
              HasSubstr("; and at least 16992 more point-to-point calls wait"));
}

TEST_F(MessageWatcherTest, NamesTheFirstOfManyAndTheirNumber) {
  SendTo(1, 10 * kRanksOnHost + 1);
  CheckFor(kStalledAfterNs);
  EXPECT_EQ(watcher_.stalled_on(), "");
  Check();
  EXPECT_TRUE(changed_);
  EXPECT_THAT(watcher_.stalled_on(), StartsWith("rank 0 waits for rank 1 on h1"));
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("rank 0 waits for rank 8 on h1"));
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("; and 9992 more point-to-point calls wait"));
  ASSERT_EQ(watcher_.awaited_ranks().size(), Stalls::kMost);
  EXPECT_EQ(watcher_.awaited_ranks().back().rank, 16) << "the first ones";
  now_ += kCheckEveryNs;
  Check();
  EXPECT_FALSE(changed_) << "the same calls wait";
}

TEST_F(MessageWatcherTest, CountsTheTimeOfEachCall) {
  SendTo(5, 6);
  CheckFor(kCheckEveryNs);
  SendTo(6, 7);
  CheckFor(kStalledAfterNs);
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("waits for rank 5"));
  EXPECT_THAT(watcher_.stalled_on(), testing::Not(HasSubstr("waits for rank 6")));
  Check();
  EXPECT_THAT(watcher_.stalled_on(), HasSubstr("waits for rank 6"));
}

// ---- The times ----------------------------------------------------------------------------------

TEST_F(MessageWatcherTest, ATenantThatWantsNoWarningsIsCountedAndReported) {
  MessageWatcher watcher = WatcherWith(3 * kStalledAfterNs);
  SendTo(5, 6);
  CheckFor(kStalledAfterNs, watcher);
  Check(watcher);
  EXPECT_THAT(watcher.awaited_ranks(), ElementsAre(AwaitedRank{5, "h1"}));
  EXPECT_THAT(watcher.stalled_on(), HasSubstr("waits for rank 5"));
  EXPECT_EQ(log_.Count("waits for rank 5"), 0u);
  CheckFor(2 * kStalledAfterNs, watcher);
  Check(watcher);
  EXPECT_EQ(log_.Count("waits for rank 5"), 1u);
}

TEST_F(MessageWatcherTest, ATenantThatWantsEarlyWarningsIsCountedLater) {
  MessageWatcher watcher = WatcherWith(kNsPerSec);
  SendTo(1, 20);
  CheckFor(kNsPerSec, watcher);
  Check(watcher);
  EXPECT_THAT(watcher.stalled_on(), HasSubstr("waits for rank 1 "));
  EXPECT_EQ(log_.Count("waits for rank 1 "), 1u);
  EXPECT_THAT(watcher.awaited_ranks(), IsEmpty());
  CheckFor(kStalledAfterNs, watcher);
  EXPECT_EQ(watcher.awaited_ranks().size(), Stalls::kMost) << "also those that no text names";
}

// ---- Transfers ----------------------------------------------------------------------------------

TEST_F(MessageWatcherTest, ReportsALaneThatMakesNoProgress) {
  Announce();
  Call(OpKind::kSend);
  ASSERT_EQ(send_.next(), 3u);
  CheckFor(kStalledAfterNs / 2);
  send_.Acknowledge();
  Turn();
  CheckFor(kStalledAfterNs);
  EXPECT_EQ(watcher_.stalled_on(), "") << "it has moved";
  CheckFor(2 * kCheckEveryNs);
  EXPECT_EQ(watcher_.stalled_on(),
            "message lane 0 to h1 makes no progress: h1 acknowledges no data");
  EXPECT_THAT(watcher_.awaited_hosts(),
              ElementsAre(AwaitedHost{"h1", StallCause::kAcknowledgement}));
  EXPECT_THAT(watcher_.awaited_ranks(), IsEmpty());
  send_.Acknowledge();
  send_.Acknowledge();
  Turn();
  Check();
  EXPECT_EQ(watcher_.stalled_on(), "");
  EXPECT_THAT(watcher_.awaited_hosts(), IsEmpty());
}

TEST_F(MessageWatcherTest, ReportsAReceiveOfWhichNoMoreArrives) {
  loop_->AddLane(HostIndex(1), 0, receive_);
  Call(OpKind::kRecv);
  const MessageTag first{.kind = MessageTag::Kind::kPayload,
                         .type = DataType::kInt8,
                         .pair = {Rank(1), Rank(0)},
                         .number = 1,
                         .amount = 0};
  const std::vector<int32_t> slice(kFakeLaneShape.slot_bytes / sizeof(int32_t));
  CheckFor(kCheckEveryNs);
  Arrive(first, slice);
  CheckFor(kStalledAfterNs);
  EXPECT_EQ(watcher_.stalled_on(), "");
  CheckFor(2 * kCheckEveryNs);
  EXPECT_THAT(watcher_.stalled_on(),
              StartsWith("rank 0 has received only 256 of 768 bytes from rank 1 on h1: recv #1"));
  EXPECT_THAT(watcher_.awaited_hosts(), ElementsAre(AwaitedHost{"h1", StallCause::kData}));
  EXPECT_THAT(watcher_.awaited_ranks(), IsEmpty()) << "the rank has sent";
  MessageTag next = first;
  next.amount = kFakeLaneShape.slot_bytes;
  Arrive(next, slice);
  now_ += kCheckEveryNs;
  Check();
  EXPECT_EQ(watcher_.stalled_on(), "");
}

}  // namespace message_watcher_test
}  // namespace mccs
