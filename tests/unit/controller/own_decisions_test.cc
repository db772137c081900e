#include "controller/own_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs {
namespace own_decisions_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

OwnDecision ADecision() { return {"replan", "communicator 7", "proposed: host h1 lost"}; }

TEST(OwnDecisions, AreTakenOnce) {
  OwnDecisions decisions;
  decisions.Note(ADecision(), 5);
  const std::vector<OwnDecision> taken = decisions.Take();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_EQ(taken[0].outcome, ADecision().outcome);
  EXPECT_THAT(decisions.Take(), IsEmpty());
}

TEST(OwnDecisions, WhatComesAndGoesAllTheTimeIsBoundedAndSaysHowOftenItDid) {
  OwnDecisions decisions;
  MonotonicNs now = 0;
  constexpr int kHour = 3600;  // s
  size_t taken = 0;
  for (int second = 0; second < kHour; ++second) {
    decisions.Note(ADecision(), now += kNsPerSec);
    taken += decisions.Take().size();
  }
  EXPECT_LE(taken, static_cast<size_t>(OwnDecisions::kBurst + kHour / 60 + 1));
  EXPECT_GE(taken, static_cast<size_t>(OwnDecisions::kBurst));
  decisions.Note(ADecision(), now + 10 * OwnDecisions::kPeriodNs);
  EXPECT_THAT(decisions.Take().at(0).outcome,
              HasSubstr("earlier ones are only in the controller's log"));
}

TEST(OwnDecisions, NobodyNeedsToTakeThem) {
  OwnDecisions decisions;
  for (int i = 0; i < 3000; ++i) decisions.Note(ADecision(), i * OwnDecisions::kPeriodNs);
  EXPECT_THAT(decisions.Take(), SizeIs(OwnDecisions::kMaxUntaken));
}

}  // namespace own_decisions_test
}  // namespace mccs
