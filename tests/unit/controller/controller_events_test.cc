#include "controller/state/controller_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace controller_events_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ControllerEvent ADecision() { return {"replan", "communicator 7", "proposed: host h1 lost"}; }

TEST(ControllerEvents, TakeReturnsEachEventOnce) {
  ControllerEvents decisions;
  decisions.Record(ADecision(), 5);
  const std::vector<ControllerEvent> taken = decisions.Take();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_EQ(taken[0].outcome, ADecision().outcome);
  EXPECT_THAT(decisions.Take(), IsEmpty());
}

TEST(ControllerEvents, LimitsFrequentEventsAndCountsThem) {
  ControllerEvents decisions;
  MonotonicNs now = 0;
  constexpr int kHour = 3600;  // s
  size_t taken = 0;
  for (int second = 0; second < kHour; ++second) {
    decisions.Record(ADecision(), now += kNsPerSec);
    taken += decisions.Take().size();
  }
  EXPECT_LE(taken, static_cast<size_t>(ControllerEvents::kBurst + kHour / 60 + 1));
  EXPECT_GE(taken, static_cast<size_t>(ControllerEvents::kBurst));
  decisions.Record(ADecision(), now + 10 * ControllerEvents::kPeriodNs);
  EXPECT_THAT(decisions.Take().at(0).outcome,
              HasSubstr("earlier ones are only in the controller's log"));
}

TEST(ControllerEvents, RejectedDaemonsHideNoOtherEvent) {
  ControllerEvents decisions;
  for (int i = 0; i < 10 * ControllerEvents::kBurst; ++i)
    decisions.Record({"reject-daemon", absl::StrCat("host 'x", i, "'"), "rejected: its clock"}, 5);
  EXPECT_THAT(decisions.Take(), SizeIs(ControllerEvents::kBurst));
  decisions.Record(ADecision(), 6);
  const std::vector<ControllerEvent> taken = decisions.Take();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_EQ(taken[0].outcome, ADecision().outcome);
}

TEST(ControllerEvents, BoundsUntakenEvents) {
  ControllerEvents decisions;
  for (int i = 0; i < 3000; ++i) decisions.Record(ADecision(), i * ControllerEvents::kPeriodNs);
  EXPECT_THAT(decisions.Take(), SizeIs(ControllerEvents::kMaxPending));
}

}  // namespace controller_events_test
}  // namespace mccs
