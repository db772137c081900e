// Captured groups with many calls, and many of them: no turn takes time that a tenant chooses.
#include "service/frontend/captured_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/frontend/captured_groups_fixture.h"

namespace mccs {
namespace captured_runs_test {

using testing::HasSubstr;

class CapturedRunsTest : public CapturedGroupsTest {
 protected:
  // One group of `calls` all-reduces, or sends, at (slot, 1).
  void AddGroup(uint64_t capture, uint32_t slot, int calls, bool sends = false) {
    for (int i = 1; i < calls; ++i) {
      ASSERT_FALSE(groups().Add(capture, At(slot, 1, sends ? Send(2) : Call(1), true)).has_value());
    }
    ASSERT_TRUE(Add(capture, At(slot, 1, sends ? Send(2) : Call(1))).ok());
  }
  bool PollIsDue(size_t looks) {
    const absl::StatusOr<bool> more = Poll(looks);
    EXPECT_TRUE(more.ok()) << more.status();
    return more.value_or(false);
  }
  bool FreeSome(size_t looks) {
    CapturedBudget budget(looks);
    return groups().FreeSome(&budget);
  }
};

TEST_F(CapturedRunsTest, ATurnPreparesALimitedNumberOfCalls) {
  AddGroup(1, 0, 1000);
  Reach(0, 1);
  int turns = 1;
  for (; PollIsDue(1600); ++turns) {
    EXPECT_TRUE(endpoint_->HasCaptured());
    EXPECT_EQ(endpoint_->NextCaptured(0), 0u) << "in turn " << turns;
    EXPECT_EQ(page().captured_ready[0].load(), 0u);
  }
  EXPECT_EQ(turns, 10);
  for (uint64_t key = 1; key <= 1000; ++key) {
    ASSERT_EQ(endpoint_->NextCaptured(0), key);
    EXPECT_FALSE(Done(0));
    endpoint_->CompleteCaptured(key);
  }
  EXPECT_TRUE(Done(0));
  EXPECT_FALSE(endpoint_->HasCaptured());
}

TEST_F(CapturedRunsTest, ATurnLooksAtALimitedNumberOfSlots) {
  for (uint32_t slot = 0; slot < 8; ++slot) AddGroup(1, slot, 1);
  Reach(1, 1);
  Reach(7, 1);
  std::vector<uint64_t> found;
  for (int turn = 0; turn < 6; ++turn) {
    if (PollIsDue(3)) {
      EXPECT_TRUE(endpoint_->HasCaptured()) << "a call is due at once, a look at slots is not";
      EXPECT_FALSE(PollIsDue(18));
    }
    for (uint64_t key = endpoint_->NextCaptured(0); key != 0; key = endpoint_->NextCaptured(key)) {
      found.push_back(key);
      endpoint_->CompleteCaptured(key);
    }
  }
  EXPECT_THAT(found, testing::ElementsAre(2, 8));
}

TEST_F(CapturedRunsTest, AGroupIsPreparedToItsEndAfterARelease) {
  AddGroup(1, 0, 100);
  Reach(0, 1);
  ASSERT_TRUE(PollIsDue(160));
  groups().Release(1);
  EXPECT_FALSE(FreeSome(1 << 20)) << "its calls are still needed";
  EXPECT_FALSE(PollIsDue(1 << 20));
  for (uint64_t key = 1; key <= 100; ++key) {
    ASSERT_EQ(endpoint_->NextCaptured(0), key);
    endpoint_->CompleteCaptured(key);
  }
  EXPECT_TRUE(Done(0));
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
  EXPECT_TRUE(FreeSome(1 << 20));
}

// A communicator that has failed prepares no further.
TEST_F(CapturedRunsTest, OthersAreFreedWhileAReleasedGroupIsPrepared) {
  const auto freed = [&] {
    constexpr size_t kMany = 1 << 20;
    CapturedBudget budget(kMany);
    groups().FreeSome(&budget);
    return kMany - budget.left();
  };
  AddGroup(1, 0, 100);
  Reach(0, 1);
  ASSERT_TRUE(PollIsDue(160));
  groups().Release(1);
  EXPECT_EQ(freed(), 0u) << "its calls are still needed";
  for (int i = 0; i < 3; ++i) {
    AddGroup(1, 1, 1);  // The number of a released capture may be used again.
    groups().Release(1);
    EXPECT_GT(freed(), 0u);
    EXPECT_EQ(freed(), 0u);
  }
  groups().Drop();
  EXPECT_GT(freed(), 0u);
  EXPECT_TRUE(FreeSome(0));
}

TEST_F(CapturedRunsTest, CapturesAreReleasedOneByOneWhileTheyArePrepared) {
  const LocalImporter::Handle handle = importer_->Register(memory_, 7);
  const BufferId other =
      *RegisterNow(*buffers_, {.handle = handle, .fd = UniqueFd(), .bytes = kBytes, .owner = 7});
  AddGroup(1, 0, 100);
  wire::WorkRecord call = Call(1);
  call.send.id = call.recv.id = other.value();
  ASSERT_TRUE(Add(3, At(1, 1, call)).ok());
  ASSERT_TRUE(Add(4, At(2, 1, Call(1))).ok());
  Reach(0, 1);
  ASSERT_TRUE(PollIsDue(160));
  groups().Release(1);
  ASSERT_TRUE(buffers_->Release(other).ok());
  Reach(1, 1);
  EXPECT_THAT(Poll().status().message(), HasSubstr("freed"));
  groups().Release(3);
  AddGroup(5, 3, 1);  // frees some
  groups().Release(4);
  groups().Drop();
  EXPECT_TRUE(FreeSome(1 << 20));
}

TEST_F(CapturedRunsTest, ALongGroupThatIsRejectedIsFreedInParts) {
  for (int i = 0; i < 2000; ++i) {
    ASSERT_FALSE(groups().Add(1, At(0, 1, Call(1), /*more=*/true)).has_value());
  }
  EXPECT_FALSE(Add(1, At(0, 2, Call(1))).ok()) << "of another group of the slot";
  EXPECT_FALSE(FreeSome(64));
  EXPECT_TRUE(FreeSome(1 << 20));
}

TEST_F(CapturedRunsTest, ABufferFreedWhileAGroupIsPreparedIsAnError) {
  AddGroup(1, 0, 100);
  Reach(0, 1);
  ASSERT_TRUE(PollIsDue(160));
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired()) << "held by the calls that are prepared";
  EXPECT_THAT(Poll().status().message(), HasSubstr("freed"));
  EXPECT_THAT(Poll().status().message(), HasSubstr("freed")) << "the error stays";
  groups().Drop();
  EXPECT_TRUE(FreeSome(1 << 20));
  EXPECT_TRUE(released->expired());
}

TEST_F(CapturedRunsTest, ManyMessagesCompleteInAnyOrder) {
  constexpr int kMessages = 700;
  AddGroup(1, 0, kMessages, /*sends=*/true);
  std::mt19937_64 random(1);
  for (int replay = 0; replay < 2; ++replay) {
    Reach(0, 1);
    ASSERT_FALSE(PollIsDue(1 << 20));
    std::vector<const PostedMessage*> messages;
    while (const PostedMessage* message = *endpoint_->TakeMessage()) messages.push_back(message);
    ASSERT_EQ(messages.size(), static_cast<size_t>(kMessages));
    std::ranges::shuffle(messages, random);
    for (const PostedMessage* message : messages) {
      EXPECT_FALSE(Done(0));
      EXPECT_EQ(message->peer, Rank(2));
      endpoint_->CompleteMessage(*message);
    }
    EXPECT_TRUE(Done(0));
    EXPECT_FALSE(endpoint_->HasMessages() || endpoint_->HasCaptured());
  }
}

TEST_F(CapturedRunsTest, ReleasedGroupsAreFreedInParts) {
  for (uint64_t group = 1; group <= 500; ++group) ASSERT_TRUE(Add(1, At(0, group, Call(1))).ok());
  groups().Release(1);
  EXPECT_EQ(endpoint_->ReplayableGroups(), 0u);
  int turns = 1;
  while (PollIsDue(3200)) ++turns;
  EXPECT_GE(turns, 10);
  EXPECT_TRUE(FreeSome(0));
}

TEST_F(CapturedRunsTest, CapturesFreeWhatWasReleased) {
  for (uint64_t group = 1; group <= 200; ++group) ASSERT_TRUE(Add(1, At(0, group, Call(1))).ok());
  groups().Release(1);
  for (uint64_t group = 1; group <= 200; ++group) ASSERT_TRUE(Add(2, At(0, group, Call(1))).ok());
  EXPECT_TRUE(FreeSome(0));
}

TEST_F(CapturedRunsTest, DroppedRunsFreeTheirBuffersInParts) {
  AddGroup(1, 0, 2000);
  Reach(0, 1);
  ASSERT_EQ(NextKey(), 1u);
  const auto released = buffers_->Release(BufferId(buffer_));
  groups().Drop();
  EXPECT_FALSE(endpoint_->HasCaptured());
  EXPECT_FALSE(FreeSome(64));
  EXPECT_FALSE(released->expired());
  EXPECT_TRUE(FreeSome(1 << 20));
  EXPECT_TRUE(released->expired());
}

// Calls of released graphs count while they run: they use memory.
TEST_F(CapturedRunsTest, TheNumberOfCallsIsLimited) {
  constexpr auto kHalf = static_cast<uint64_t>(kMaxCapturedCalls / 2);
  const auto add = [&](uint64_t capture, uint32_t slot, uint64_t calls) {
    for (uint64_t i = 0; i < calls; ++i) {
      groups().Add(capture, At(slot, 1, Call(1), /*more=*/i + 1 < calls));
    }
  };
  add(1, 0, kHalf);
  Reach(0, 1);
  while (PollIsDue(1 << 20)) {
  }
  ASSERT_EQ(endpoint_->NextCaptured(0), 1u);
  groups().Release(1);
  add(2, 1, kHalf);
  ASSERT_EQ(endpoint_->ReplayableGroups(), 2u);
  EXPECT_THAT(Add(3, At(2, 1, Call(1))).message(), HasSubstr("too many captured calls"));
  for (uint64_t key = 1; key <= kHalf; ++key) endpoint_->CompleteCaptured(key);
  EXPECT_TRUE(Add(3, At(2, 1, Call(1))).ok());
}

TEST_F(CapturedRunsTest, TheStreamsOfAGroupCountAsCalls) {
  const uint64_t groups_of_two = kMaxCapturedCalls / 2;
  for (uint64_t group = 1; group <= groups_of_two; ++group) {
    groups().Add(1, At(1, group, Fence(1, group), /*more=*/true));
    ASSERT_TRUE(Add(1, At(0, group, Call(1))).ok()) << group;
  }
  EXPECT_THAT(Add(1, At(0, groups_of_two + 1, Call(1))).message(),
              HasSubstr("too many captured calls"));
}

}  // namespace captured_runs_test
}  // namespace mccs
