// Calls that wait for ranks that have left, and what a turn spends on finding them.
#include "service/communicator/schedule/departures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/device/cpu_device.h"
#include "tests/unit/communicator/single_host_loop.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/messages/listed_messages.h"

namespace mccs {
namespace departures_test {

using testing::HasSubstr;

constexpr int kRanks = 128;
constexpr MonotonicNs kTimeout = Departures::kDepartureTimeoutNs;

// A rank with messages, and windows if `has_windows`.
class WindowedRank final : public ListedMessages {
 public:
  uint64_t WindowChanges() const override { return has_windows ? 1 : 0; }
  WindowView GetWindow(uint64_t) const override {
    return {.state = has_windows ? WindowView::State::kOpen : WindowView::State::kNotYet};
  }

  bool has_windows = false;
};

class DeparturesTest : public testing::Test {
 protected:
  void Post(int rank, OpKind kind, int peer, uint64_t awaited = 0) {
    ports_[static_cast<size_t>(rank)].Post(kind, peer, awaited);
  }
  void Leave(int rank, bool by_call) {
    ranks_[static_cast<size_t>(rank)].port = nullptr;
    departures_.Add({.rank = Rank(rank),
                     .after = 0,
                     .why = "was destroyed",
                     .messages = messages_.CountsOf(Rank(rank)),
                     .by_call = by_call});
  }
  // Turns until nothing moves.
  absl::Status Turn() {
    for (;;) {
      const absl::StatusOr<bool> moved = messages_.Poll();
      if (!moved.ok()) return moved.status();
      const absl::Status status = departures_.Check(host_.loop(), messages_, now_);
      if (!status.ok() || !*moved) return status;
    }
  }

  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  std::vector<WindowedRank> ports_ = std::vector<WindowedRank>(kRanks);
  std::vector<LocalRank> ranks_ = RanksOf(ports_);
  SingleHostLoop host_{device_, ranks_};
  const std::vector<HostIndex> host_of_ = std::vector<HostIndex>(kRanks, HostIndex(0));
  WorkTally tally_{std::make_shared<TenantCounters>()};
  MessageLoop messages_{device_,
                        {.host_of = host_of_,
                         .hosts = 1,
                         .self = HostIndex(0),
                         .slice_bytes = 256,
                         .open_lane = [](HostIndex, int) -> SendLane* { return nullptr; },
                         .tally = &tally_},
                        ranks_};
  Departures departures_;
  MonotonicNs now_ = 1;
};

// A tenant chooses how many of its ranks have left, and how long others wait for each other.
TEST_F(DeparturesTest, TurnsInWhichNothingMovesLookAtNoDepartedRank) {
  Post(0, OpKind::kRecv, 1);
  for (int rank = 2; rank < kRanks; ++rank) Leave(rank, /*by_call=*/true);
  ASSERT_TRUE(Turn().ok());
  const uint64_t checked = departures_.checked_ranks();
  EXPECT_GE(checked, static_cast<uint64_t>(kRanks - 2));
  for (int turn = 0; turn < 100; ++turn) ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(departures_.checked_ranks(), checked);
  EXPECT_GT(departures_.cost(), 0);
}

TEST_F(DeparturesTest, ACallForADeadRankFailsAtOnce) {
  Leave(1, /*by_call=*/false);
  ASSERT_TRUE(Turn().ok());
  Post(0, OpKind::kSend, 2);
  ASSERT_TRUE(Turn().ok()) << "that rank lives";
  Post(0, OpKind::kRecv, 1);
  const absl::Status status = Turn();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("cannot complete: rank 1 was destroyed"));
}

TEST_F(DeparturesTest, EveryKindOfCallForARankThatLeftFailsAfterATimeout) {
  for (const OpKind kind : {OpKind::kSend, OpKind::kRecv, OpKind::kPut, OpKind::kSignal}) {
    const int rank = static_cast<int>(kind) + 1;
    SCOPED_TRACE(rank);
    departures_ = Departures();
    Post(0, kind, rank);
    Leave(rank, /*by_call=*/true);
    ASSERT_TRUE(Turn().ok());
    const MonotonicNs deadline = departures_.NextDeadline();
    EXPECT_EQ(deadline, now_ + kTimeout);
    now_ = deadline - 1;
    ASSERT_TRUE(Turn().ok());
    now_ = deadline;
    EXPECT_THAT(Turn().message(), HasSubstr(absl::StrCat("rank ", rank, " was destroyed")));
  }
}

TEST_F(DeparturesTest, AWaitForMoreSignalsThanArriveFails) {
  Post(1, OpKind::kSignal, 0);
  ASSERT_TRUE(Turn().ok());
  Leave(1, /*by_call=*/false);
  Post(0, OpKind::kWaitSignal, 1, 1);
  ASSERT_TRUE(Turn().ok());
  EXPECT_FALSE(ports_[0].HasMessages());
  Post(0, OpKind::kWaitSignal, 1, 1);
  EXPECT_THAT(Turn().message(), HasSubstr("rank 1 was destroyed"));
}

// A put that waits is checked again when a window opens or closes, and waits again.
TEST_F(DeparturesTest, APutForARankThatLeftIsNotForgotten) {
  Post(0, OpKind::kPut, 1);
  Leave(1, /*by_call=*/true);
  ASSERT_TRUE(Turn().ok());
  const MonotonicNs deadline = departures_.NextDeadline();
  ports_[2].has_windows = true;
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(departures_.NextDeadline(), deadline);
  now_ = deadline;
  EXPECT_TRUE(absl::IsUnavailable(Turn()));
}

TEST_F(DeparturesTest, ACallThatCompletesBeforeTheTimeoutFailsNothing) {
  Post(0, OpKind::kRecv, 2);
  Leave(1, /*by_call=*/true);
  ASSERT_TRUE(Turn().ok());
  EXPECT_EQ(departures_.NextDeadline(), kNever);
  Post(2, OpKind::kSend, 0);
  ASSERT_TRUE(Turn().ok());
  now_ += 2 * kTimeout;
  EXPECT_TRUE(Turn().ok());
}

}  // namespace departures_test
}  // namespace mccs
