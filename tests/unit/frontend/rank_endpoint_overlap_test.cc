// Calls of one work ring that may run at once: which later calls the endpoint shows beside the
// oldest one, and when they are ready.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "service/frontend/rank_endpoint.h"
#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace rank_endpoint_overlap_test {

using testing::HasSubstr;

class OverlappingCalls : public RankEndpointTest {};

TEST_F(OverlappingCalls, LaterCallsAreSeenBeforeTheOldestIsComplete) {
  for (uint64_t n = 1; n <= kMaxPostedAhead + 1; ++n) Push(Call(n, n));
  for (size_t position = 0; position < kMaxPostedAhead; ++position) {
    const auto call = endpoint_->Posted(position);
    ASSERT_TRUE(call.ok() && *call != nullptr) << position;
    EXPECT_EQ((*call)->count, position + 1);
    EXPECT_TRUE(endpoint_->IsReady(position));
  }
  EXPECT_EQ(*endpoint_->Posted(kMaxPostedAhead), nullptr) << "a limited number";
  EXPECT_EQ(page().done.value.load(), 0u);
  endpoint_->Complete();
  EXPECT_EQ(page().done.value.load(), 1u) << "the others are not complete";
  EXPECT_EQ((*endpoint_->Posted(0))->count, 2u);
  EXPECT_EQ((*endpoint_->Posted(kMaxPostedAhead - 1))->count, kMaxPostedAhead + 1);
}

TEST_F(OverlappingCalls, ALaterCallWaitsForItsOwnFenceAndForOlderOnes) {
  for (const auto& [n, slot] : {std::pair{1, 3}, {2, 5}, {3, 3}}) {
    wire::WorkRecord call = Call(static_cast<uint64_t>(n));
    call.ready_slot = static_cast<uint32_t>(slot);
    call.ready_value = static_cast<uint64_t>(n);
    Push(call);
  }
  ASSERT_NE(*endpoint_->Posted(2), nullptr);
  page().ready[5].value.store(2);
  EXPECT_FALSE(endpoint_->IsReady(1)) << "the oldest call is not reached";
  page().ready[3].value.store(1);
  EXPECT_TRUE(endpoint_->IsReady(0));
  EXPECT_TRUE(endpoint_->IsReady(1));
  EXPECT_FALSE(endpoint_->IsReady(2));
  page().ready[3].value.store(3);
  EXPECT_TRUE(endpoint_->IsReady(2));
}

TEST_F(OverlappingCalls, AnInvalidLaterCallDoesNotStopOlderOnes) {
  Push(Call(1));
  Push(Call(2, kBytes));
  ASSERT_NE(*endpoint_->Posted(0), nullptr);
  EXPECT_EQ(*endpoint_->Posted(1), nullptr);
  EXPECT_EQ(*endpoint_->TakeMessage(), nullptr);
  ASSERT_NE(*endpoint_->Posted(0), nullptr);
  endpoint_->Complete();
  EXPECT_THAT(Rejection(), HasSubstr("call #2"));
  EXPECT_FALSE(endpoint_->TakeMessage().ok());
}

// A message would delay the done word of the calls before its group, for which its stream waits.
TEST_F(OverlappingCalls, AGroupOfSeveralCallsWaitsForOlderGroups) {
  Push(Call(1));
  wire::WorkRecord first = Call(2);
  first.flags = wire::kMoreInGroup;
  Push(first);
  Push(Call(3));
  ASSERT_NE(*endpoint_->Posted(0), nullptr);
  EXPECT_EQ(*endpoint_->Posted(1), nullptr);
  endpoint_->Complete();
  EXPECT_EQ(page().done.value.load(), 1u);
  ASSERT_NE(*endpoint_->Posted(1), nullptr) << "the second call of the group";
}

TEST_F(OverlappingCalls, AMessageWaitsForOlderCalls) {
  Push(Call(1));
  wire::WorkRecord send = Call(2);
  send.op = OpKind::kSend;
  send.root_or_peer = 0;
  Push(send);
  ASSERT_NE(*endpoint_->Posted(0), nullptr);
  EXPECT_EQ(*endpoint_->Posted(1), nullptr);
  EXPECT_EQ(*endpoint_->TakeMessage(), nullptr);
  endpoint_->Complete();
  EXPECT_NE(*endpoint_->TakeMessage(), nullptr);
}

}  // namespace rank_endpoint_overlap_test
}  // namespace mccs
