// Messages with one other host over lanes controlled by the test, which plays the peer.
#include "service/messages/peer_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

#include "service/frontend/captured_groups.h"
#include "service/frontend/posted_call.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/executor/fake_lanes.h"

namespace mccs {
namespace peer_messages_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Rank kOurs{0}, kTheirs{5};
constexpr uint64_t kPerSlice = kFakeLaneShape.slot_bytes / sizeof(int32_t);

class PeerMessagesTest : public testing::Test {
 protected:
  PeerMessagesTest() {
    messages_.Attach(receive_);
    std::iota(buffer_.begin(), buffer_.end(), 0);
  }

  absl::Status Add(OpKind kind, uint64_t count, uint64_t number, uint64_t at = 0) {
    calls_.push_back(
        {.kind = kind,
         .type = DataType::kInt32,
         .peer = kTheirs,
         .count = count,
         .memory = SpanOf(buffer_).Part(at * sizeof(int32_t), count * sizeof(int32_t))});
    const RankPair pair =
        kind == OpKind::kSend ? RankPair{kOurs, kTheirs} : RankPair{kTheirs, kOurs};
    return messages_.Add({.call = &calls_.back(), .port = nullptr, .pair = pair, .number = number});
  }
  static MessageTag Announcement(uint64_t number, uint64_t count) {
    return {.kind = MessageTag::Kind::kAnnouncement,
            .type = DataType::kInt32,
            .pair = {kOurs, kTheirs},
            .number = number,
            .amount = count};
  }
  static MessageTag Payload(uint64_t number, uint64_t offset_bytes) {
    return {.kind = MessageTag::Kind::kPayload,
            .type = DataType::kInt32,
            .pair = {kTheirs, kOurs},
            .number = number,
            .amount = offset_bytes};
  }
  void Arrive(const MessageTag& tag, const std::vector<int32_t>& values = {}) {
    ASSERT_TRUE(receive_.Arrive(values, ToTag(tag)));
  }
  absl::Status Poll() {
    bool moved = false;
    return messages_.Poll(done_, &moved);
  }
  MessageTag SentTag(SliceNumber n) const { return MessageFromTag(send_.TagAt(n)); }

  FakeSendLane send_;
  FakeRecvLane receive_;
  int opened_ = 0;
  std::vector<int32_t> buffer_ = std::vector<int32_t>(1000);
  std::deque<PostedMessage> calls_;
  std::vector<OpenMessage> done_;
  PeerMessages messages_{{.open =
                              [this] {
                                ++opened_;
                                return &send_;
                              },
                          .slice_bytes = kFakeLaneShape.slot_bytes,
                          .may_send =
                              [](const RankPair& pair) {
                                return pair.source == kOurs && pair.destination == kTheirs;
                              }}};
};

TEST_F(PeerMessagesTest, SendWaitsForReceiveWithoutOpeningLane) {
  ASSERT_TRUE(Add(OpKind::kSend, 10, 1).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(opened_, 0);
  EXPECT_FALSE(messages_.busy());
  Arrive(Announcement(1, 10));
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(opened_, 1);
  EXPECT_TRUE(messages_.busy());
  EXPECT_THAT(done_, IsEmpty());
  EXPECT_EQ(send_.Acknowledge().size(), 10u);
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_FALSE(messages_.busy());
}

TEST_F(PeerMessagesTest, AlternatesLongAndShortMessages) {
  Arrive(Announcement(1, 2 * kPerSlice));
  Arrive(Announcement(2, 3));
  ASSERT_TRUE(Add(OpKind::kSend, 2 * kPerSlice, 1).ok());
  ASSERT_TRUE(Add(OpKind::kSend, 3, 2).ok());
  ASSERT_TRUE(Poll().ok());
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(send_.next(), 3u);
  EXPECT_EQ(SentTag(0).number, 1u);
  EXPECT_EQ(SentTag(1).number, 2u);
  EXPECT_EQ(SentTag(2).number, 1u);
  EXPECT_EQ(SentTag(2).amount, kFakeLaneShape.slot_bytes);
}

TEST_F(PeerMessagesTest, ResumesAfterMissingCredit) {
  send_.credit = 1;
  Arrive(Announcement(1, 2 * kPerSlice));
  ASSERT_TRUE(Add(OpKind::kSend, 2 * kPerSlice, 1).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(send_.next(), 1u);
  send_.credit = 2;
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(send_.next(), 2u);
  EXPECT_EQ(send_.Read(1).front(), static_cast<int32_t>(kPerSlice));
}

TEST_F(PeerMessagesTest, AnnouncesReceiveAndFillsItInPlace) {
  ASSERT_TRUE(Add(OpKind::kRecv, 4, 1, /*at=*/100).ok());
  ASSERT_TRUE(Add(OpKind::kRecv, 2, 2, /*at=*/200).ok());
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(send_.next(), 2u);
  EXPECT_EQ(SentTag(0).kind, MessageTag::Kind::kAnnouncement);
  EXPECT_EQ(SentTag(0).amount, 4u);
  EXPECT_EQ(SentTag(1).number, 2u);
  Arrive(Payload(2, 0), {7, 8});  // the second one arrives first
  Arrive(Payload(1, 0), {1, 2});
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].number, 2u);
  Arrive(Payload(1, 8), {3, 4});
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 2u);
  EXPECT_THAT(std::vector<int32_t>(buffer_.begin() + 100, buffer_.begin() + 104),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(std::vector<int32_t>(buffer_.begin() + 200, buffer_.begin() + 202),
              ElementsAre(7, 8));
}

TEST_F(PeerMessagesTest, EmptyMessageIsOneEmptySlice) {
  ASSERT_TRUE(Add(OpKind::kRecv, 0, 1).ok());
  ASSERT_TRUE(Add(OpKind::kSend, 0, 1).ok());
  Arrive(Announcement(1, 0));
  Arrive(Payload(1, 0));
  ASSERT_TRUE(Poll().ok());
  send_.copied = kNoLimit;
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 2u);
}

TEST_F(PeerMessagesTest, NamesBothCallsOfDifferentLength) {
  ASSERT_TRUE(Add(OpKind::kSend, 10, 1).ok());
  Arrive(Announcement(1, 11));
  const absl::Status status = Poll();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("send #1 of rank 0 to rank 5 count 10"));
  EXPECT_THAT(status.message(), HasSubstr("recv #1 of rank 5 from rank 0 count 11"));
}

TEST_F(PeerMessagesTest, AcceptsOtherTypeOfEqualSize) {
  ASSERT_TRUE(Add(OpKind::kSend, 2, 1).ok());
  MessageTag doubles = Announcement(1, 1);
  doubles.type = DataType::kFloat64;
  Arrive(doubles);
  EXPECT_TRUE(Poll().ok());
  EXPECT_EQ(send_.next(), 1u);
}

TEST_F(PeerMessagesTest, RejectsInvalidSlices) {
  std::vector<MessageTag> lies = {Announcement(2, 1), Announcement(0, 1),
                                  Announcement(1, ~uint64_t{0})};
  lies.push_back(Announcement(1, 1));
  lies.back().type = static_cast<DataType>(200);
  lies.push_back(Announcement(1, 1));
  lies.back().pair.source = Rank(77);
  lies.push_back(Payload(1, 0));
  lies.push_back(Announcement(1, 1));
  lies.back().kind = static_cast<MessageTag::Kind>(9);
  for (const MessageTag& lie : lies) {
    FakeRecvLane lane;
    PeerMessages messages({.open = [this] { return &send_; },
                           .slice_bytes = 256,
                           .may_send = [](const RankPair& p) { return p.source == kOurs; }});
    messages.Attach(lane);
    ASSERT_TRUE(lane.Arrive({}, ToTag(lie)));
    bool moved = false;
    EXPECT_TRUE(absl::IsDataLoss(messages.Poll(done_, &moved)));
  }
}

TEST_F(PeerMessagesTest, RejectsPayloadBeyondItsReceive) {
  ASSERT_TRUE(Add(OpKind::kRecv, 2, 1, /*at=*/100).ok());
  const std::vector<int32_t> before = buffer_;
  Arrive(Payload(1, 4), {1, 2});
  EXPECT_TRUE(absl::IsDataLoss(Poll()));
  EXPECT_EQ(buffer_, before);
}

// The same bytes twice add up to the expected number. The first copy completes the receive, and the
// tenant may reuse its memory from then on. The second copy is placed before this host knows of
// that.
TEST_F(PeerMessagesTest, PlacesDuplicatePayloadOnce) {
  ASSERT_TRUE(Add(OpKind::kRecv, 2, 1, /*at=*/100).ok());
  ASSERT_TRUE(Poll().ok());
  Arrive(Payload(1, 0), {7, 8});
  Arrive(Payload(1, 0), {9, 9});
  EXPECT_THAT(std::vector<int32_t>(buffer_.begin() + 100, buffer_.begin() + 102),
              ElementsAre(7, 8));
  EXPECT_TRUE(absl::IsDataLoss(Poll()));
}

TEST_F(PeerMessagesTest, RepeatedSliceGetsItsPreviousPlace) {
  ASSERT_TRUE(Add(OpKind::kRecv, 4, 1, /*at=*/100).ok());
  ASSERT_TRUE(Poll().ok());
  Arrive(Payload(1, 0), {1, 2});
  std::vector<RegionSpan> pieces;
  ASSERT_TRUE(receive_.sink()->FindDestination(ToTag(Payload(1, 8)), 8, pieces))
      << "its bytes never arrive";
  Arrive(Payload(1, 8), {3, 4});
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_THAT(std::vector<int32_t>(buffer_.begin() + 100, buffer_.begin() + 104),
              ElementsAre(1, 2, 3, 4));
}

TEST_F(PeerMessagesTest, RejectsPayloadOutOfOrder) {
  for (const uint64_t lie : {0, 8}) {
    SCOPED_TRACE(lie);
    FakeRecvLane lane;
    PeerMessages messages({.open = [this] { return &send_; },
                           .slice_bytes = 256,
                           .may_send = [](const RankPair&) { return false; }});
    messages.Attach(lane);
    calls_.push_back({.kind = OpKind::kRecv,
                      .type = DataType::kInt32,
                      .peer = kTheirs,
                      .count = 4,
                      .memory = SpanOf(buffer_)});
    ASSERT_TRUE(
        messages
            .Add({.call = &calls_.back(), .port = nullptr, .pair = {kTheirs, kOurs}, .number = 1})
            .ok());
    bool moved = false;
    if (lie == 0) {
      ASSERT_TRUE(lane.Arrive({1, 2}, ToTag(Payload(1, 0))));
      ASSERT_TRUE(messages.Poll(done_, &moved).ok());
    }
    ASSERT_TRUE(lane.Arrive({1, 2}, ToTag(Payload(1, lie))));
    const absl::Status status = messages.Poll(done_, &moved);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(done_, IsEmpty());
  }
}

TEST_F(PeerMessagesTest, LimitsAnnouncedReceives) {
  static_assert(PeerMessages::kMaxAnnounced >= kMaxGroupMessages + kMaxCapturedCalls);
  uint64_t number = 0;
  while (number < PeerMessages::kMaxAnnounced) {
    Arrive(Announcement(++number, 1));
    ASSERT_TRUE(Poll().ok()) << number;
  }
  // Sent receives no longer count.
  ASSERT_TRUE(Add(OpKind::kSend, 1, 1).ok());
  Arrive(Announcement(++number, 1));
  ASSERT_TRUE(Poll().ok());
  Arrive(Announcement(++number, 1));
  const absl::Status status = Poll();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("rank 0 to rank 5: its rank has announced more receives"));
}

TEST_F(PeerMessagesTest, OnlyUnpostedCallsAreUnmatched) {
  ASSERT_TRUE(Add(OpKind::kSend, 1, 1).ok());
  ASSERT_TRUE(Add(OpKind::kRecv, 1, 1).ok());
  EXPECT_EQ(messages_.Unmatched(kTheirs, {{.peer = kOurs, .sent = 1, .received = 1}}), nullptr);
  EXPECT_NE(messages_.Unmatched(kTheirs, {{.peer = kOurs, .sent = 1, .received = 0}}), nullptr);
  EXPECT_NE(messages_.Unmatched(kTheirs, {}), nullptr);
  EXPECT_EQ(messages_.Unmatched(Rank(6), {}), nullptr);
}

}  // namespace peer_messages_test
}  // namespace mccs
