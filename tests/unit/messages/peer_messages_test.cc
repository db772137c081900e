// Messages with one other host over lanes controlled by the test, which plays the peer.
#include "service/messages/peer_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
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
    messages_.Attach(0, receive_);
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
  static MessageTag Announcement(uint64_t number, uint64_t count, uint16_t stripes = 1) {
    return {.kind = MessageTag::Kind::kAnnouncement,
            .type = DataType::kInt32,
            .stripes = stripes,
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
    return turns_.Poll(done_, &moved);
  }
  MessageTag SentTag(SliceNumber n) const { return MessageFromTag(send_.TagAt(n)); }

  PeerMessages::Options OptionsOf() {
    return {.turns = &turns_,
            .open =
                [this](int lane) {
                  ++opened_;
                  return lane == 0 ? &send_ : &other_sends_[lane];
                },
            .slice_bytes = kFakeLaneShape.slot_bytes,
            .slots = kFakeLaneShape.slots,
            .most_lanes = kMaxChannels,
            .home_of = [](const RankPair&) { return 0; },
            .channels = [this] { return channels_; },
            .may_send =
                [](const RankPair& pair) {
                  return pair.source == kOurs && pair.destination == kTheirs;
                },
            .may_receive =
                [](const RankPair& pair) {
                  return pair.source == kTheirs && pair.destination == kOurs;
                }};
  }
  static std::vector<int32_t> Values(uint64_t first, uint64_t count) {
    std::vector<int32_t> values(count);
    std::iota(values.begin(), values.end(), static_cast<int32_t>(first));
    return values;
  }

  FakeSendLane send_;
  FakeRecvLane receive_;
  std::map<int, FakeSendLane> other_sends_;  // by message lane
  int opened_ = 0;
  int channels_ = 1;
  std::vector<int32_t> buffer_ = std::vector<int32_t>(1000);
  std::deque<PostedMessage> calls_;
  std::vector<OpenMessage> done_;
  MessageLaneTurns turns_;
  PeerMessages messages_{OptionsOf()};
};

TEST_F(PeerMessagesTest, SendWaitsForReceiveWithoutOpeningLane) {
  ASSERT_TRUE(Add(OpKind::kSend, 10, 1).ok());
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(opened_, 0);
  EXPECT_FALSE(turns_.busy());
  Arrive(Announcement(1, 10));
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(opened_, 1);
  EXPECT_TRUE(turns_.busy());
  EXPECT_THAT(done_, IsEmpty());
  EXPECT_EQ(send_.Acknowledge().size(), 10u);
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_FALSE(turns_.busy());
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
  send_.NotifyUser();
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(send_.next(), 2u);
  EXPECT_EQ(send_.Read(1).front(), static_cast<int32_t>(kPerSlice));
}

TEST_F(PeerMessagesTest, AnnouncesReceiveAndFillsItInPlace) {
  ASSERT_TRUE(Add(OpKind::kRecv, kPerSlice + 2, 1, /*at=*/100).ok());
  ASSERT_TRUE(Add(OpKind::kRecv, 2, 2, /*at=*/200).ok());
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(send_.next(), 2u);
  EXPECT_EQ(SentTag(0).kind, MessageTag::Kind::kAnnouncement);
  EXPECT_EQ(SentTag(0).amount, kPerSlice + 2);
  EXPECT_EQ(SentTag(0).stripes, 1);
  EXPECT_EQ(SentTag(1).number, 2u);
  Arrive(Payload(2, 0), {7, 8});  // the second one arrives first
  Arrive(Payload(1, 0), Values(1000, kPerSlice));
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].number, 2u);
  Arrive(Payload(1, kFakeLaneShape.slot_bytes), Values(1000 + kPerSlice, 2));
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 2u);
  EXPECT_EQ(std::vector<int32_t>(buffer_.begin() + 100, buffer_.begin() + 100 + kPerSlice + 2),
            Values(1000, kPerSlice + 2));
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
  send_.NotifyUser();
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 2u);
}

// A turn costs nothing for the lanes of a peer that has opened them all.
TEST_F(PeerMessagesTest, TurnsPollOnlyLanesWithWork) {
  struct CountingLane final : FakeRecvLane {
    Landing Landed(SliceNumber n) const override {
      ++asked;
      return FakeRecvLane::Landed(n);
    }
    mutable int asked = 0;
  };
  std::vector<CountingLane> lanes(kMaxChannels);
  PeerMessages messages(OptionsOf());
  for (int lane = 0; lane < kMaxChannels; ++lane) {
    messages.Attach(lane, lanes[static_cast<size_t>(lane)]);
  }
  ASSERT_TRUE(Poll().ok());
  for (CountingLane& lane : lanes) lane.asked = 0;
  ASSERT_TRUE(lanes[0].Arrive({}, ToTag(Announcement(1, 1))));
  ASSERT_TRUE(Poll().ok());
  EXPECT_GT(lanes[0].asked, 0);
  for (size_t lane = 1; lane < lanes.size(); ++lane) EXPECT_EQ(lanes[lane].asked, 0) << lane;
}

TEST_F(PeerMessagesTest, TurnTakesALimitedNumberOfSlices) {
  constexpr size_t kLanes = MessageLaneTurns::kSlicesPerTurn;  // two slices each
  std::vector<FakeRecvLane> lanes(kLanes);
  std::vector<std::unique_ptr<PeerMessages>> peers;
  for (FakeRecvLane& lane : lanes) {
    peers.push_back(std::make_unique<PeerMessages>(OptionsOf()));
    peers.back()->Attach(0, lane);
    for (const uint64_t number : {1, 2})
      ASSERT_TRUE(lane.Arrive({}, ToTag(Announcement(number, 1))));
  }
  const auto taken = [&] {
    SliceNumber slices = 0;
    for (const FakeRecvLane& lane : lanes) slices += lane.released();
    return slices;
  };
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(taken(), MessageLaneTurns::kSlicesPerTurn);
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(taken(), 2 * MessageLaneTurns::kSlicesPerTurn);
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
    PeerMessages messages(OptionsOf());
    messages.Attach(0, lane);
    ASSERT_TRUE(lane.Arrive({}, ToTag(lie)));
    bool moved = false;
    EXPECT_TRUE(absl::IsDataLoss(turns_.Poll(done_, &moved)));
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
  ASSERT_TRUE(Add(OpKind::kRecv, kPerSlice + 2, 1, /*at=*/100).ok());
  ASSERT_TRUE(Poll().ok());
  Arrive(Payload(1, 0), Values(0, kPerSlice));
  const MessageTag last = Payload(1, kFakeLaneShape.slot_bytes);
  ASSERT_TRUE(receive_.sink()->FindDestination(receive_.landed(), ToTag(last), 8).has_value())
      << "its bytes never arrive";
  Arrive(last, Values(kPerSlice, 2));
  ASSERT_TRUE(Poll().ok());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_EQ(std::vector<int32_t>(buffer_.begin() + 100, buffer_.begin() + 100 + kPerSlice + 2),
            Values(0, kPerSlice + 2));
}

TEST_F(PeerMessagesTest, RejectsPayloadOutOfOrder) {
  for (const uint64_t lie : {uint64_t{0}, uint64_t{2} * kFakeLaneShape.slot_bytes}) {
    SCOPED_TRACE(lie);
    FakeRecvLane lane;
    PeerMessages messages(OptionsOf());
    messages.Attach(0, lane);
    calls_.push_back({.kind = OpKind::kRecv,
                      .type = DataType::kInt32,
                      .peer = kTheirs,
                      .count = 3 * kPerSlice,
                      .memory = SpanOf(buffer_)});
    ASSERT_TRUE(
        messages
            .Add({.call = &calls_.back(), .port = nullptr, .pair = {kTheirs, kOurs}, .number = 1})
            .ok());
    bool moved = false;
    if (lie == 0) {
      ASSERT_TRUE(lane.Arrive(Values(0, kPerSlice), ToTag(Payload(1, 0))));
      ASSERT_TRUE(turns_.Poll(done_, &moved).ok());
    }
    ASSERT_TRUE(lane.Arrive(Values(0, kPerSlice), ToTag(Payload(1, lie))));
    const absl::Status status = turns_.Poll(done_, &moved);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("out of order"));
    EXPECT_THAT(done_, IsEmpty());
  }
}

TEST_F(PeerMessagesTest, RejectsShortSlice) {
  ASSERT_TRUE(Add(OpKind::kRecv, 2 * kPerSlice, 1).ok());
  Arrive(Payload(1, 0), {1, 2});
  const absl::Status status = Poll();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("a slice of 8 bytes at byte 0; expected slices of 256"));
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

// The call of a complete receive may not exist any more.
TEST_F(PeerMessagesTest, ACompleteReceiveIsNotUnmatched) {
  ASSERT_TRUE(Add(OpKind::kRecv, kPerSlice + 2, 1).ok());
  ASSERT_TRUE(Add(OpKind::kRecv, 2, 2).ok());
  Arrive(Payload(2, 0), {7, 8});
  ASSERT_TRUE(Poll().ok());
  ASSERT_EQ(done_.size(), 1u);
  const OpenMessage* const unmatched = messages_.Unmatched(kTheirs, {});
  ASSERT_NE(unmatched, nullptr);
  EXPECT_EQ(unmatched->number, 1u);
}

// ---- Stripes ------------------------------------------------------------------------------------

// Messages over three message lanes; the home lane of the pair is lane 1.
class StripedMessagesTest : public PeerMessagesTest {
 protected:
  static constexpr int kLanes = 3;

  StripedMessagesTest() {
    channels_ = kLanes;
    PeerMessages::Options options = OptionsOf();
    options.most_lanes = options.home_lanes = kLanes;
    options.home_of = [](const RankPair&) { return 1; };
    striped_ = std::make_unique<PeerMessages>(options);
    for (int lane = 0; lane < kLanes; ++lane) striped_->Attach(lane, receives_[lane]);
  }
  ~StripedMessagesTest() override { striped_.reset(); }

  absl::Status AddStriped(OpKind kind, uint64_t count, uint64_t number) {
    calls_.push_back({.kind = kind,
                      .type = DataType::kInt32,
                      .peer = kTheirs,
                      .count = count,
                      .memory = SpanOf(buffer_).Part(0, count * sizeof(int32_t))});
    const RankPair pair =
        kind == OpKind::kSend ? RankPair{kOurs, kTheirs} : RankPair{kTheirs, kOurs};
    return striped_->Add({.call = &calls_.back(), .port = nullptr, .pair = pair, .number = number});
  }
  absl::Status PollStriped() {
    for (;;) {
      bool moved = false;
      const absl::Status status = turns_.Poll(done_, &moved);
      if (!status.ok() || !moved) return status;
    }
  }
  void ArriveOn(int lane, const MessageTag& tag, const std::vector<int32_t>& values = {}) {
    ASSERT_TRUE(receives_[lane].Arrive(values, ToTag(tag)));
  }
  FakeSendLane& SendOn(int lane) { return lane == 0 ? send_ : other_sends_[lane]; }
  // The offsets of all payloads posted to a lane, in order.
  std::vector<uint64_t> OffsetsOn(int lane) {
    std::vector<uint64_t> offsets;
    for (SliceNumber n = 0; n < SendOn(lane).next(); ++n) {
      const MessageTag tag = MessageFromTag(SendOn(lane).TagAt(n));
      if (tag.kind == MessageTag::Kind::kPayload) offsets.push_back(tag.amount);
    }
    return offsets;
  }

  FakeRecvLane receives_[kLanes];
  std::unique_ptr<PeerMessages> striped_;
};

TEST_F(StripedMessagesTest, SendsSlicesOverAllLanesFromTheHomeOn) {
  ArriveOn(1, Announcement(1, 7 * kPerSlice + 1, /*stripes=*/3));
  ASSERT_TRUE(AddStriped(OpKind::kSend, 7 * kPerSlice + 1, 1).ok());
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(OffsetsOn(1), (std::vector<uint64_t>{0, 3 * 256, 6 * 256}));
  EXPECT_EQ(OffsetsOn(2), (std::vector<uint64_t>{256, 4 * 256, 7 * 256}));
  EXPECT_EQ(OffsetsOn(0), (std::vector<uint64_t>{2 * 256, 5 * 256}));
  EXPECT_EQ(SendOn(2).Read(2), Values(7 * kPerSlice, 1)) << "the rest";
  // It is complete when the last lane is.
  for (const int lane : {2, 0}) {
    SendOn(lane).copied = kNoLimit;
    SendOn(lane).NotifyUser();
    ASSERT_TRUE(PollStriped().ok());
    EXPECT_THAT(done_, IsEmpty());
  }
  EXPECT_TRUE(turns_.busy());
  SendOn(1).copied = kNoLimit;
  SendOn(1).NotifyUser();
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_FALSE(turns_.busy());
}

TEST_F(StripedMessagesTest, ShortMessagesStayOnHomeLane) {
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 2 * kPerSlice - 1, 1).ok());
  ASSERT_TRUE(AddStriped(OpKind::kSend, 2 * kPerSlice - 1, 1).ok());
  ArriveOn(1, Announcement(1, 2 * kPerSlice - 1));
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(opened_, 1);
  EXPECT_EQ(MessageFromTag(SendOn(1).TagAt(0)).stripes, 1);
  EXPECT_EQ(OffsetsOn(1), (std::vector<uint64_t>{0, 256}));
}

TEST_F(StripedMessagesTest, ReceivesStripesInAnyOrderOfLanes) {
  std::fill(buffer_.begin(), buffer_.end(), -1);
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 4 * kPerSlice + 1, 1).ok());
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(MessageFromTag(SendOn(1).TagAt(0)).stripes, 3);
  const auto arrive = [&](int lane, uint64_t slice, uint64_t count = kPerSlice) {
    ArriveOn(lane, Payload(1, 256 * slice), Values(slice * kPerSlice, count));
    ASSERT_TRUE(PollStriped().ok());
  };
  arrive(2, 1);
  arrive(2, 4, 1);
  arrive(0, 2);
  arrive(1, 0);
  EXPECT_THAT(done_, IsEmpty());
  arrive(1, 3);
  EXPECT_EQ(done_.size(), 1u);
  EXPECT_EQ(std::vector<int32_t>(buffer_.begin(), buffer_.begin() + 4 * kPerSlice + 1),
            Values(0, 4 * kPerSlice + 1));
}

// The channels of a strategy change between two receives; the first one is still in flight.
TEST_F(StripedMessagesTest, EachMessageKeepsItsAnnouncedStripes) {
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 3 * kPerSlice, 1).ok());
  channels_ = 2;
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 3 * kPerSlice, 2).ok());
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(MessageFromTag(SendOn(1).TagAt(0)).stripes, 3);
  EXPECT_EQ(MessageFromTag(SendOn(1).TagAt(1)).stripes, 2);
  ArriveOn(2, Payload(2, 256), Values(kPerSlice, kPerSlice));
  ArriveOn(1, Payload(2, 0), Values(0, kPerSlice));
  ArriveOn(1, Payload(2, 512), Values(2 * kPerSlice, kPerSlice));
  ASSERT_TRUE(PollStriped().ok());
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].number, 2u);
  for (const auto& [lane, slice] : {std::pair{0, 2}, {1, 0}, {2, 1}}) {
    const auto at = static_cast<uint64_t>(slice);
    ArriveOn(lane, Payload(1, at * 256), Values(at * kPerSlice, kPerSlice));
  }
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(done_.size(), 2u);
}

TEST_F(StripedMessagesTest, NamesBothCallsOfDifferentLength) {
  ASSERT_TRUE(AddStriped(OpKind::kSend, 4 * kPerSlice, 1).ok());
  ArriveOn(1, Announcement(1, 5 * kPerSlice, /*stripes=*/3));
  const absl::Status status = PollStriped();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("send #1 of rank 0 to rank 5 count 256"));
  EXPECT_THAT(status.message(), HasSubstr("recv #1 of rank 5 from rank 0 count 320"));
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_THAT(OffsetsOn(lane), IsEmpty());
}

TEST_F(StripedMessagesTest, RejectsSliceOnAnotherLane) {
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 3 * kPerSlice, 1).ok());
  const std::vector<int32_t> before = buffer_;
  ArriveOn(2, Payload(1, 0), Values(500, kPerSlice));
  const absl::Status status = PollStriped();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("byte 0 arrived on message lane 2; expected lane 1"));
  EXPECT_EQ(buffer_, before);
}

TEST_F(StripedMessagesTest, RejectsAnnouncementOnAnotherLane) {
  ArriveOn(0, Announcement(1, 1));
  const absl::Status status = PollStriped();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("message lane 0; expected lane 1, the pair's home"));
}

// ---- Limits of stripes --------------------------------------------------------------------------

TEST_F(StripedMessagesTest, SendsWaitWhileManyStripesAreInFlight) {
  constexpr uint64_t kMost = MostSentStripes(kLanes) / kLanes;
  constexpr uint64_t kMessages = 3 * kMost;
  for (uint64_t number = 1; number <= kMessages; ++number) {
    ASSERT_TRUE(AddStriped(OpKind::kSend, 3 * kPerSlice, number).ok());
    ArriveOn(1, Announcement(number, 3 * kPerSlice, /*stripes=*/3));
    ASSERT_TRUE(PollStriped().ok());
  }
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_EQ(OffsetsOn(lane).size(), kMost);
  WaitingCalls waiting;
  striped_->AddUnmatched(waiting);
  EXPECT_THAT(waiting.calls(), IsEmpty()) << "the receives are announced";
  // A message makes room when all its stripes have arrived.
  for (const int lane : {0, 1}) SendOn(lane).Acknowledge();
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(OffsetsOn(2).size(), kMost);
  SendOn(2).Acknowledge();
  ASSERT_TRUE(PollStriped().ok());
  EXPECT_EQ(OffsetsOn(2).size(), kMost + 1);
  for (uint64_t turn = 0; turn < kMessages; ++turn) {
    for (int lane = 0; lane < kLanes; ++lane) {
      SendOn(lane).copied = SendOn(lane).next();
      SendOn(lane).NotifyUser();
    }
    ASSERT_TRUE(PollStriped().ok());
  }
  ASSERT_EQ(done_.size(), kMessages);
  for (uint64_t i = 0; i < kMessages; ++i) EXPECT_EQ(done_[i].number, i + 1);
}

// The first slice of each of many receives: the peer's daemon has started more than it may.
TEST_F(StripedMessagesTest, LimitsIncompleteReceivesOfPeer) {
  constexpr uint64_t kMost = MostReceivedStripes(kLanes, kFakeLaneShape.slots) / kLanes;
  for (uint64_t number = 1; number <= kMost + 1; ++number)
    ASSERT_TRUE(AddStriped(OpKind::kRecv, 3 * kPerSlice, number).ok());
  const auto arrive = [&](uint64_t number, int lane, uint64_t slice) {
    ArriveOn(lane, Payload(number, 256 * slice), Values(0, kPerSlice));
    return PollStriped();
  };
  for (uint64_t number = 1; number <= kMost; ++number) ASSERT_TRUE(arrive(number, 1, 0).ok());
  // A complete one makes room for another.
  ASSERT_TRUE(arrive(1, 2, 1).ok());
  ASSERT_TRUE(arrive(1, 0, 2).ok());
  EXPECT_EQ(done_.size(), 1u);
  ASSERT_TRUE(arrive(kMost + 1, 1, 0).ok());
  ASSERT_TRUE(AddStriped(OpKind::kRecv, 3 * kPerSlice, kMost + 2).ok());
  const absl::Status status = arrive(kMost + 2, 1, 0);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("too many others are incomplete"));
}

TEST_F(StripedMessagesTest, ReceivesTakeMemoryForStripesOnlyInFlight) {
  constexpr uint64_t kReceives = 10'000;
  const PostedMessage call{.kind = OpKind::kRecv,
                           .type = DataType::kInt32,
                           .peer = kTheirs,
                           .count = 15 * kPerSlice,
                           .memory = SpanOf(buffer_)};
  channels_ = kMaxChannels;
  PeerMessages messages(OptionsOf());
  const auto allocated = [] { return mallinfo2().uordblks; };  // 0 under a sanitizer
  const size_t before = allocated();
  for (uint64_t number = 1; number <= kReceives; ++number) {
    ASSERT_TRUE(
        messages.Add({.call = &call, .port = nullptr, .pair = {kTheirs, kOurs}, .number = number})
            .ok());
  }
  EXPECT_LT(allocated() - before, kReceives * 200);
}

// ---- Invalid stripes ----------------------------------------------------------------------------

TEST_F(StripedMessagesTest, RejectsInvalidNumberOfStripes) {
  for (const uint16_t stripes : {0, 5, 65535}) {
    FakeRecvLane lane;
    PeerMessages messages(OptionsOf());
    messages.Attach(0, lane);
    ASSERT_TRUE(lane.Arrive({}, ToTag(Announcement(1, 4 * kPerSlice, stripes))));
    bool moved = false;
    const absl::Status status = turns_.Poll(done_, &moved);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("stripes; expected 1 to 4"));
  }
}

}  // namespace peer_messages_test
}  // namespace mccs
