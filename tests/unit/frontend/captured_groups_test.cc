// Captured groups; the test captures the calls and plays the streams.
#include "service/frontend/captured_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/frontend/captured_groups_fixture.h"

namespace mccs {
namespace captured_groups_test {

using testing::HasSubstr;

TEST_F(CapturedGroupsTest, RunsEachTimeItIsReached) {
  ASSERT_TRUE(Add(1, At(5, 1, Call(1))).ok());
  EXPECT_EQ(NextKey(), 0u);
  EXPECT_EQ(endpoint_->ReplayableGroups(), 1u);
  for (int i = 0; i < 3; ++i) {
    Reach(5, 1);
    ASSERT_EQ(NextKey(), 1u);
    EXPECT_TRUE(endpoint_->HasCaptured());
    const PostedOperation* call = endpoint_->Captured(1);
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->kind, OpKind::kAllReduce);
    EXPECT_EQ(call->input.address(), memory_.data());
    EXPECT_FALSE(Done(5));
    endpoint_->CompleteCaptured(1);
    EXPECT_TRUE(Done(5));
    EXPECT_EQ(page().captured_ready[5].load(), 0u);
    EXPECT_EQ(NextKey(), 0u);
  }
}

// The size of the communicator is known from the roster: calls captured before cannot be checked
// against it.
TEST_F(CapturedGroupsTest, ACaptureBeforeTheCommunicatorHasFormedIsRejected) {
  endpoint_ = MakeForming();
  const absl::Status rejected = Add(1, At(5, 1, Call(1)));
  EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
  EXPECT_THAT(rejected.message(), HasSubstr("still forming"));
}

TEST_F(CapturedGroupsTest, KeysCountCollectivesInTheOrderOfTheirCapture) {
  EXPECT_FALSE(groups().Add(1, At(0, 1, Call(1), true)).has_value());
  ASSERT_TRUE(Add(1, At(0, 1, Call(2))).ok());  // 1 and 2, one group
  ASSERT_TRUE(Add(1, At(0, 2, Send(2))).ok());  // none
  ASSERT_TRUE(Add(2, At(1, 1, Call(1))).ok());  // 3
  Reach(1, 1);
  Reach(0, 1);
  EXPECT_EQ(NextKey(), 1u);
  EXPECT_EQ(NextKey(1), 3u);
  EXPECT_EQ(endpoint_->Captured(2), nullptr) << "after the first of its group";
  endpoint_->CompleteCaptured(1);
  EXPECT_FALSE(Done(0));
  EXPECT_NE(endpoint_->Captured(2), nullptr);
  endpoint_->CompleteCaptured(3);
  endpoint_->CompleteCaptured(2);
  EXPECT_TRUE(Done(0) && Done(1));
}

TEST_F(CapturedGroupsTest, AGroupOverSeveralStreamsWaitsForAllOfThem) {
  wire::WorkRecord fence = At(7, 1, Fence(7, 1), true);
  EXPECT_FALSE(groups().Add(1, fence).has_value());
  ASSERT_TRUE(Add(1, At(3, 1, Call(1))).ok());
  Reach(3, 1);
  EXPECT_EQ(NextKey(), 0u);
  Reach(7, 1);
  ASSERT_EQ(NextKey(), 1u);
  endpoint_->CompleteCaptured(1);
  EXPECT_TRUE(Done(3) && Done(7));
}

TEST_F(CapturedGroupsTest, MessagesAreTakenBesideTheRing) {
  EXPECT_FALSE(groups().Add(1, At(0, 1, Send(2), true)).has_value());
  ASSERT_TRUE(Add(1, At(0, 1, Send(3))).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(NextKey(), 0u);
    EXPECT_EQ(*endpoint_->TakeMessage(), nullptr);
    Reach(0, 1);
    EXPECT_EQ(NextKey(), 0u);
    const PostedMessage* first = *endpoint_->TakeMessage();
    const PostedMessage* second = *endpoint_->TakeMessage();
    ASSERT_TRUE(first != nullptr && second != nullptr);
    EXPECT_EQ(first->peer, Rank(2));
    EXPECT_EQ(second->peer, Rank(3));
    EXPECT_TRUE(endpoint_->HasMessages());
    endpoint_->CompleteMessage(*second);
    EXPECT_FALSE(Done(0));
    endpoint_->CompleteMessage(*first);
    EXPECT_TRUE(Done(0));
    EXPECT_FALSE(endpoint_->HasMessages());
  }
}

TEST_F(CapturedGroupsTest, AFailureReleasesNoReplay) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  endpoint_->Fail(absl::InternalError("broken"));
  EXPECT_FALSE(Done(0));
  endpoint_->OnReleased();
  EXPECT_FALSE(Done(0));
}

TEST_F(CapturedGroupsTest, PoisonOutlivesEveryReplay) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  wire::PoisonCaptured(page());
  EXPECT_TRUE(Done(0));
  endpoint_->CompleteCaptured(1);  // it still ran to its end
  for (int i = 0; i < 3; ++i) {
    Reach(0, 1);
    EXPECT_TRUE(Done(0));
  }
}

// The shim releases the streams when the program has destroyed the communicator.
TEST_F(CapturedGroupsTest, RunsNoReplayAfterTheRelease) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  endpoint_->OnReleased();
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
  Reach(0, 1);
  EXPECT_FALSE(Done(0));
  EXPECT_EQ(page().failure.error.load(), 0u);
}

TEST_F(CapturedGroupsTest, AReleasedCaptureFreesItsSlots) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  EXPECT_FALSE(Add(2, At(0, 1, Call(1))).ok()) << "the slot belongs to another capture";
  groups().Release(1);
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
  page().captured_ready[0].store(1);  // a stale value
  ASSERT_TRUE(Add(2, At(0, 1, Call(1))).ok());
  EXPECT_EQ(NextKey(), 0u);
  Reach(0, 1);
  EXPECT_EQ(NextKey(), 2u) << "keys are not reused";
}

TEST_F(CapturedGroupsTest, AReleaseDuringAReplayWaitsForItsEnd) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  groups().Release(1);
  ASSERT_NE(endpoint_->Captured(1), nullptr);
  EXPECT_EQ(endpoint_->ReplayableGroups(), 1u);
  endpoint_->CompleteCaptured(1);
  EXPECT_TRUE(Done(0));
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
}

TEST_F(CapturedGroupsTest, ABufferIsHeldWhileTheGroupRunsAndNotBetween) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired());
  endpoint_->CompleteCaptured(1);
  EXPECT_TRUE(released->expired());
  Reach(0, 1);
  EXPECT_THAT(Poll().status().message(), HasSubstr("freed"));
}

TEST_F(CapturedGroupsTest, RejectsInvalidCallsAtTheCapture) {
  auto rejection = [&](wire::WorkRecord record) {
    const absl::Status status = Add(1, At(0, 1, record));
    return std::string(status.message());
  };
  wire::WorkRecord record = Call(1);
  record.count = 1 << 20;
  EXPECT_THAT(rejection(record), HasSubstr("exceed buffer"));
  record = Call(1);
  record.op = static_cast<OpKind>(99);
  EXPECT_THAT(rejection(record), HasSubstr("unknown kind 99"));
  record = Send(kRanks);
  EXPECT_THAT(rejection(record), HasSubstr("peer"));
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok()) << "a rejected group uses no number";
}

TEST_F(CapturedGroupsTest, CorruptGroupsAreRejected) {
  EXPECT_FALSE(Add(1, At(wire::kCapturedSlots, 1, Call(1))).ok());
  EXPECT_FALSE(Add(1, At(0, 2, Call(1))).ok()) << "group 1 is missing";
  EXPECT_FALSE(Add(1, At(0, 0, Call(1))).ok());
  EXPECT_FALSE(Add(1, At(0, 1, Fence(0, 1))).ok()) << "no call";
  wire::WorkRecord record = Call(1);
  record.record = static_cast<wire::RecordKind>(9);
  EXPECT_FALSE(Add(1, At(0, 1, record)).ok());
  EXPECT_FALSE(groups().Add(1, At(0, 1, Call(1), true)).has_value());
  EXPECT_FALSE(Add(2, At(0, 1, Call(1))).ok()) << "another capture within the group";
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
}

TEST_F(CapturedGroupsTest, InvalidSlotValuesFailTheRank) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  page().captured_ready[9].store(4);  // not polled
  EXPECT_EQ(NextKey(), 0u);
  page().captured_ready[0].store(2);
  EXPECT_THAT(Poll().status().message(), HasSubstr("shows group 2 of 1"));
}

TEST_F(CapturedGroupsTest, AGroupThatIsLaunchedWhileItRunsFailsTheRank) {
  ASSERT_TRUE(Add(1, At(0, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  Reach(0, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Poll().status()));
}

// A tenant's process can write the words at any time, not only where its streams do.
TEST_F(CapturedGroupsTest, ASlotWithARunningGroupStartsNoOther) {
  ASSERT_TRUE(Add(1, At(5, 1, Call(1))).ok());
  ASSERT_TRUE(Add(1, At(5, 2, Call(1))).ok());
  Reach(5, 1);
  ASSERT_EQ(NextKey(), 1u);
  Reach(5, 2);
  EXPECT_THAT(Poll().status().message(), HasSubstr("one after the other"));
  EXPECT_EQ(endpoint_->Captured(2), nullptr);
}

TEST_F(CapturedGroupsTest, ASlotIsInUseUntilItsReleasedGroupHasEnded) {
  ASSERT_TRUE(Add(1, At(5, 1, Call(1))).ok());
  Reach(5, 1);
  ASSERT_EQ(NextKey(), 1u);
  groups().Release(1);
  ASSERT_TRUE(Add(2, At(5, 1, Call(1))).ok());
  Reach(5, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Poll().status()));
  endpoint_->CompleteCaptured(1);
  EXPECT_EQ(NextKey(), 2u);
}

TEST_F(CapturedGroupsTest, GroupsInManySlotsRunInAnyOrder) {
  constexpr uint32_t kSlots = 8;
  // Two collectives and a message each.
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_FALSE(groups().Add(1, At(slot, 1, Call(1), true)).has_value());
    EXPECT_FALSE(groups().Add(1, At(slot, 1, Send(2), true)).has_value());
    ASSERT_TRUE(Add(1, At(slot, 1, Call(2))).ok());
  }
  for (int replay = 0; replay < 2; ++replay) {
    for (uint32_t slot = kSlots; slot > 0; --slot) {
      Reach(slot - 1, 1);
      ASSERT_EQ(NextKey(), 2 * slot - 1);
    }
    std::vector<const PostedMessage*> messages;
    while (const PostedMessage* message = *endpoint_->TakeMessage()) messages.push_back(message);
    ASSERT_EQ(messages.size(), kSlots);
    for (const uint32_t slot : {3u, 0u, 7u, 5u, 1u, 2u, 6u, 4u}) {
      const uint64_t first = 2 * slot + 1;
      ASSERT_NE(endpoint_->Captured(first), nullptr);
      endpoint_->CompleteCaptured(first);
      EXPECT_EQ(endpoint_->Captured(first), nullptr);
      EXPECT_EQ(NextKey(first - 1), first + 1) << "the second one of the same group";
      endpoint_->CompleteCaptured(first + 1);
      EXPECT_FALSE(Done(slot));
      endpoint_->CompleteMessage(*messages[kSlots - 1 - slot]);  // reached from the last one on
      EXPECT_TRUE(Done(slot));
    }
    EXPECT_FALSE(endpoint_->HasCaptured() || endpoint_->HasMessages());
  }
}

}  // namespace captured_groups_test
}  // namespace mccs
