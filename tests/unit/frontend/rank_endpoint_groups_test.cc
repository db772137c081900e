// Which calls of a group run concurrently, and when the streams are released.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace rank_endpoint_groups_test {

class RankEndpointGroupsTest : public RankEndpointTest {
 protected:
  wire::WorkRecord Send(uint64_t sequence, int peer, bool more = true) {
    wire::WorkRecord record = Call(sequence);
    record.op = OpKind::kSend;
    record.root_or_peer = peer;
    record.flags = more ? wire::kMoreInGroup : wire::kNoFlags;
    return record;
  }
  const PostedMessage* Take() {
    const auto message = endpoint_->TakeMessage();
    EXPECT_TRUE(message.ok()) << message.status();
    return message.ok() ? *message : nullptr;
  }
  const PostedOperation* Front() {
    const auto front = endpoint_->Front();
    EXPECT_TRUE(front.ok()) << front.status();
    return front.ok() ? *front : nullptr;
  }
  uint64_t done() { return page().done.value.load(); }
};

TEST_F(RankEndpointGroupsTest, MessagesOfAGroupAreTakenTogetherAndEachOnce) {
  Push(Send(1, 2));
  wire::WorkRecord receive = Send(2, 3, /*more=*/false);
  receive.op = OpKind::kRecv;
  receive.recv.offset = 64;
  Push(receive);
  const PostedMessage* first = Take();
  const PostedMessage* second = Take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->kind, OpKind::kSend);
  EXPECT_EQ(first->peer, Rank(2));
  EXPECT_EQ(first->address, memory_.data());
  EXPECT_EQ(second->kind, OpKind::kRecv);
  EXPECT_EQ(second->address, memory_.data() + 64);
  EXPECT_EQ(second->bytes(), 64u);
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(RankEndpointGroupsTest, TheDoneWordMovesWhenTheWholeGroupIsDone) {
  Push(Send(1, 2));
  Push(Send(2, 3, /*more=*/false));
  const PostedMessage* first = Take();
  const PostedMessage* second = Take();
  endpoint_->CompleteMessage(*second);
  EXPECT_EQ(done(), 0u);
  EXPECT_TRUE(endpoint_->HasMessages());
  endpoint_->CompleteMessage(*first);
  EXPECT_EQ(done(), 2u);
  EXPECT_FALSE(endpoint_->HasMessages());
}

TEST_F(RankEndpointGroupsTest, TheNextGroupWaitsForTheMessagesOfTheOneBefore) {
  Push(Send(1, 2, /*more=*/false));
  Push(Call(2));
  Push(Send(3, 2, /*more=*/false));
  const PostedMessage* first = Take();
  EXPECT_EQ(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr);
  endpoint_->CompleteMessage(*first);
  ASSERT_NE(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr) << "the collective is another group, and incomplete";
  endpoint_->Complete();
  EXPECT_NE(Take(), nullptr);
}

// Otherwise {send, all-reduce} on one rank and {all-reduce, receive} on another would deadlock.
TEST_F(RankEndpointGroupsTest, ACollectiveRunsBesideTheMessagesOfItsGroup) {
  Push(Send(1, 2));
  wire::WorkRecord collective = Call(2);
  collective.flags = wire::kMoreInGroup;
  Push(collective);
  Push(Send(3, 2, /*more=*/false));
  const PostedMessage* first = Take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr) << "after the collective";
  endpoint_->Complete();
  EXPECT_EQ(done(), 0u) << "the first message is incomplete";
  const PostedMessage* last = Take();
  ASSERT_NE(last, nullptr);
  endpoint_->CompleteMessage(*first);
  endpoint_->CompleteMessage(*last);
  EXPECT_EQ(done(), 3u);
}

TEST_F(RankEndpointGroupsTest, MessagesWaitForTheirStreamsAndShareAFence) {
  std::vector<wire::WorkRecord> calls;
  for (uint64_t sequence = 1; sequence <= wire::kReadySlots + 6; ++sequence) {
    calls.push_back(Send(sequence, 2, sequence != wire::kReadySlots + 6));
    calls.back().ready_slot = 5;
    calls.back().ready_value = 9;
    Push(calls.back());
  }
  EXPECT_EQ(Take(), nullptr);
  EXPECT_TRUE(endpoint_->AwaitsStreams());
  page().ready[5].value.store(9);
  for (size_t i = 0; i < calls.size(); ++i) ASSERT_NE(Take(), nullptr);
  EXPECT_FALSE(endpoint_->AwaitsStreams());
}

TEST_F(RankEndpointGroupsTest, AMessageWithoutElementsNeedsNoBuffer) {
  wire::WorkRecord record = Send(1, 0, /*more=*/false);
  record.count = 0;
  record.send = {};
  Push(record);
  const PostedMessage* message = Take();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->address, nullptr);
  endpoint_->CompleteMessage(*message);
  EXPECT_EQ(done(), 1u);
}

TEST_F(RankEndpointGroupsTest, RejectsMessagesWithInvalidPeerOrBuffer) {
  for (int peer : {-1, kRanks}) {
    Renew();
    Push(Send(1, peer));
    EXPECT_FALSE(endpoint_->TakeMessage().ok());
  }
  Renew();
  wire::WorkRecord record = Send(1, 2);
  record.send.offset = kBytes - 32;
  Push(record);
  EXPECT_FALSE(endpoint_->TakeMessage().ok());
}

TEST_F(RankEndpointGroupsTest, ReleaseDropsTheMessagesBuffers) {
  Push(Send(1, 2));
  ASSERT_NE(Take(), nullptr);
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired());
  endpoint_->OnReleased();
  EXPECT_TRUE(released->expired());
}

}  // namespace rank_endpoint_groups_test
}  // namespace mccs
