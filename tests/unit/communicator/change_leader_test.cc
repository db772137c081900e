// Which answers of hosts are legal in which stage of a change. The test plays all hosts.
#include "service/communicator/schedule/change_leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace change_leader_test {

using ::testing::HasSubstr;

constexpr HostIndex kFirst{0}, kSecond{1};
constexpr MonotonicNs kStart = kNsPerSec;

Strategy Ring(uint64_t epoch) {
  Strategy strategy;
  strategy.epoch = Epoch(epoch);
  strategy.channels = {{.ring = {kFirst, kSecond}, .source_ports = {}}};
  strategy.lanes = {.slots = 4, .slot_bytes = 16u << 10};
  return strategy;
}
// Needs other lanes than Ring.
Strategy Wide(uint64_t epoch) {
  Strategy strategy = Ring(epoch);
  strategy.lanes.slots = 8;
  return strategy;
}

enum class Kind { kPrepared, kRejected, kStarted, kDrained, kNothing };

peer::StrategyChangeAnswer Answer(uint64_t epoch, Kind kind, uint64_t number = 0) {
  peer::StrategyChangeAnswer answer;
  answer.set_epoch(epoch);
  if (kind == Kind::kPrepared) answer.set_prepared(true);
  if (kind == Kind::kRejected) answer.set_rejected("no");
  if (kind == Kind::kStarted) answer.set_started(number);
  if (kind == Kind::kDrained) answer.set_drained(true);
  return answer;
}

class ChangeLeaderTest : public ::testing::Test {
 protected:
  std::optional<peer::StrategyChange> Next(MonotonicNs now = kStart) {
    return leader_.Next(current_, now);
  }
  absl::Status SendAnswer(HostIndex from, uint64_t epoch, Kind kind, uint64_t number = 0) {
    return leader_.OnAnswer(from, Answer(epoch, kind, number), /*here=*/5);
  }
  void Begin(const Strategy& strategy) {
    ASSERT_TRUE(leader_.Propose(strategy, current_).ok());
    ASSERT_TRUE(Next().has_value());
  }
  // Both hosts answer; returns the next order.
  void Both(uint64_t epoch, Kind kind) {
    for (const HostIndex host : {kFirst, kSecond})
      ASSERT_TRUE(SendAnswer(host, epoch, kind, 5).ok());
    ASSERT_TRUE(Next().has_value());
  }
  // Every answer except those in `legal` is an error, for any epoch.
  void ExpectOnly(std::vector<Kind> legal) {
    for (const uint64_t epoch :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, ~uint64_t{0}}) {
      for (const Kind kind :
           {Kind::kPrepared, Kind::kRejected, Kind::kStarted, Kind::kDrained, Kind::kNothing}) {
        if (epoch == 2 && std::ranges::find(legal, kind) != legal.end()) continue;
        const absl::Status status = SendAnswer(kSecond, epoch, kind);
        EXPECT_TRUE(absl::IsDataLoss(status))
            << "epoch " << epoch << " kind " << static_cast<int>(kind) << ": " << status;
      }
    }
  }

  const Strategy current_ = Ring(1);
  std::optional<uint64_t> left_;  // by the second host
  ChangeLeader leader_{
      {.hosts = 2,
       .left_after = [this](HostIndex host) { return host == kSecond ? left_ : std::nullopt; },
       .name_of = [](HostIndex host) { return absl::StrCat("h", host.value()); }}};
};

TEST_F(ChangeLeaderTest, RejectsAnswersWithoutChange) { ExpectOnly({}); }

TEST_F(ChangeLeaderTest, AcceptsOnePreparedPerHost) {
  Begin(Wide(2));
  ExpectOnly({Kind::kPrepared, Kind::kRejected});
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kPrepared).ok());
  ExpectOnly({Kind::kRejected});
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kRejected).ok()) << "its lanes broke";
  ExpectOnly({});
}

TEST_F(ChangeLeaderTest, RejectsRejectionAfterPreparedOfRoutes) {
  Strategy routes = Ring(2);
  routes.channels[0].source_ports = {7, 8};
  Begin(routes);
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kPrepared).ok());
  ExpectOnly({});
}

TEST_F(ChangeLeaderTest, AcceptsOneStartedPerHost) {
  Begin(Wide(2));
  Both(2, Kind::kPrepared);
  ExpectOnly({Kind::kStarted, Kind::kRejected});
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kRejected).ok()) << "sent before hold arrived";
  EXPECT_TRUE(absl::IsDataLoss(SendAnswer(kSecond, 2, Kind::kStarted, ~uint64_t{0})));
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kStarted, 9).ok());
  EXPECT_TRUE(absl::IsDataLoss(SendAnswer(kSecond, 2, Kind::kStarted, 9)));
  EXPECT_TRUE(SendAnswer(kFirst, 2, Kind::kStarted, 5).ok());
  EXPECT_EQ(Next()->commit().after(), 9u);
}

TEST_F(ChangeLeaderTest, AcceptsOneDrainedPerHost) {
  Begin(Wide(2));
  Both(2, Kind::kPrepared);
  Both(2, Kind::kStarted);
  ExpectOnly({Kind::kDrained});
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kDrained).ok());
  ExpectOnly({});
}

TEST_F(ChangeLeaderTest, IgnoresAnswersThatCrossedDrop) {
  Begin(Wide(2));
  EXPECT_TRUE(SendAnswer(kFirst, 2, Kind::kRejected).ok());
  EXPECT_THAT(Next()->aborted(), HasSubstr("h0"));
  ExpectOnly({Kind::kPrepared, Kind::kRejected});
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kPrepared).ok());
  Begin(Wide(3));
  EXPECT_TRUE(SendAnswer(kSecond, 2, Kind::kRejected).ok())
      << "also after the start of the next change";
  EXPECT_FALSE(Next().has_value()) << "it does not answer that one";
}

TEST_F(ChangeLeaderTest, IgnoresAnswersOfDepartedHost) {
  Begin(Wide(2));
  Both(2, Kind::kPrepared);
  left_ = 6;
  EXPECT_TRUE(SendAnswer(kSecond, 7, Kind::kDrained).ok());
  EXPECT_TRUE(SendAnswer(kFirst, 2, Kind::kStarted, 5).ok());
  EXPECT_EQ(Next()->commit().after(), 6u);
}

}  // namespace change_leader_test
}  // namespace mccs
