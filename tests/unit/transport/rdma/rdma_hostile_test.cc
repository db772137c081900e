// Peers that break the protocol of lanes over RDMA: in the frames of the exchange, and in messages
// and immediate values afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "service/transport/rdma/pair_proof.h"
#include "tests/unit/mentions.h"
#include "tests/unit/transport/rdma/rdma_world.h"

namespace mccs {
namespace rdma_hostile_test {

using namespace rdma_test;

// Ignores its completions.
class SilentUser final : public PeerPair::User {
 public:
  void OnSent(uint64_t) override {}
  void OnMessage(const wire::PairMessage& message) override { messages.push_back(message); }
  void OnWritten(const wire::ImmediateFields&, uint32_t) override {}
  void OnProgress() override {}
  void OnPairLost(const absl::Status&) override {}

  std::vector<wire::PairMessage> messages;
};

// Host 0 acts as the sender of a lane to host 1 by hand: its GID is smaller, so it makes the pairs.
class RdmaHostileTest : public RdmaWorld {
 protected:
  void SetUp() override {
    Start(3);
    victim_ = &Open(2, 1);
    ASSERT_TRUE(RunUntil([&] { return Ready(*victim_); }));
  }

  void Connect(bool has_slots) {
    if (pair_ != nullptr) pair_->Leave(number_);
    pair_.reset();
    lane_ = std::make_unique<Lane>();
    if (has_slots) GiveSlots(*lane_);
    lane_->recv = host(1).transport.MakeRecvLane(IdentityAt(false, 0, 1, 0, kTenant), kShape,
                                                 has_slots ? SpanOf(lane_->slots) : RegionSpan{});
    auto [own, peer] = ConnectStreams(0, 1);
    stream_ = std::move(own);
    lane_->recv->Attach(std::move(peer));
  }

  bool RunUntil(const std::function<bool()>& done) {
    return RdmaWorld::RunUntil([&] {
      if (lane_ != nullptr && lane_->recv != nullptr) lane_->recv->Poll();
      return done();
    });
  }

  template <typename Frame>
  void Write(const Frame& frame) {
    size_t bytes = 0;
    EXPECT_TRUE(RunUntil([&] {
      const iovec rest{.iov_base = reinterpret_cast<std::byte*>(const_cast<Frame*>(&frame)) + bytes,
                       .iov_len = sizeof(frame) - bytes};
      const auto written = stream_->Write({&rest, 1});
      if (written.ok()) bytes += *written;
      return bytes == sizeof(frame);
    }));
  }
  template <typename Frame>
  Frame Read() {
    Frame frame{};
    size_t bytes = 0;
    EXPECT_TRUE(RunUntil([&] {
      const iovec rest{.iov_base = reinterpret_cast<std::byte*>(&frame) + bytes,
                       .iov_len = sizeof(frame) - bytes};
      const auto got = stream_->Read({&rest, 1});
      if (got.ok()) bytes += *got;
      return bytes == sizeof(frame);
    }));
    return frame;
  }

  wire::LaneHello Hello() {
    wire::LaneHello hello{};
    hello.magic = wire::kLaneHelloMagic;
    hello.version = wire::kRdmaLaneVersion;
    hello.slots = kShape.slots;
    hello.slot_bytes = kShape.slot_bytes;
    hello.gid = nic(0).attributes().gid;
    return hello;
  }
  wire::PairFrame FrameOf(PeerPair& pair, uint32_t magic) {
    const QueuePairAddress address = pair.queue_pair().address();
    wire::PairFrame frame{};
    frame.magic = magic;
    frame.queue_pair = address.number.value();
    frame.gid = address.gid;
    frame.mtu_bytes = address.mtu_bytes;
    frame.pair = pair.name();
    frame.lane = 1;
    frame.receives = pair.receives();
    return frame;
  }

  // The exchange as a correct sender does it.
  void MakeReady(bool has_slots) {
    Connect(has_slots);
    Write(Hello());
    Read<wire::LaneHello>();
    auto pair = host(0).pairs().FindOrMake(
        {.queues = IdentityAt(true, 0, 1, 0, kTenant).queues, .peer_gid = nic(1).attributes().gid});
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *pair;
    number_ = *pair_->Join(user_);
    ASSERT_TRUE(RunUntil([&] { return pair_->made(); }));
    Write(FrameOf(*pair_, wire::kPairOfferMagic));
    const auto accept = Read<wire::PairFrame>();
    ASSERT_EQ(accept.magic, wire::kPairAcceptMagic);
    peer_lane_ = static_cast<uint16_t>(accept.lane);
    ASSERT_TRUE(pair_
                    ->SetPeer({.number = QueuePairNumber(accept.queue_pair),
                               .gid = accept.gid,
                               .mtu_bytes = accept.mtu_bytes},
                              accept.receives)
                    .ok());
    pair_->Connect();
    ASSERT_TRUE(RunUntil([&] { return pair_->connected(); }));
    pair_->SetUsable();
    Write(FrameOf(*pair_, wire::kPairGoMagic));
    ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kReady; }));
  }

  // Another lane on the queue pair of MakeReady.
  std::unique_ptr<Lane> JoinPair() {
    std::unique_ptr<Lane> first = std::exchange(lane_, std::make_unique<Lane>());
    std::unique_ptr<Connection> stream = std::move(stream_);
    lane_->recv =
        host(1).transport.MakeRecvLane(IdentityAt(false, 0, 1, 0, kTenant), kShape, RegionSpan{});
    auto [own, peer] = ConnectStreams(0, 1);
    stream_ = std::move(own);
    lane_->recv->Attach(std::move(peer));
    Write(Hello());
    const wire::Nonce nonce = Read<wire::LaneHello>().nonce;
    wire::PairFrame offer = FrameOf(*pair_, wire::kPairOfferMagic);
    offer.pair = pair_->id();
    offer.connected = 1;
    offer.proof = wire::FrameProof(pair_->name(), offer, Hello().nonce, nonce);
    Write(offer);
    EXPECT_EQ(Read<wire::PairFrame>().magic, wire::kPairAcceptMagic);
    EXPECT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kReady; }));
    std::unique_ptr<Lane> second = std::move(lane_);
    lane_ = std::move(first);
    stream_ = std::move(stream);
    return second;
  }

  void ExpectVictimCarries() {
    const SliceNumber end = victim_->send->next() + 10;
    EXPECT_TRUE(RunUntil([&] {
      Carry(*victim_, end);
      return victim_->send->acknowledged() == end;
    }));
    EXPECT_EQ(victim_->send->counters().reconnects, 0u);
  }

  SilentUser user_;
  Lane* victim_ = nullptr;
  std::unique_ptr<Connection> stream_;
  std::unique_ptr<Lane> lane_;
  std::shared_ptr<PeerPair> pair_;
  LaneNumber number_;
  uint16_t peer_lane_ = 0;
};

TEST_F(RdmaHostileTest, AnUnexpectedFrameEndsTheLane) {
  for (const uint32_t magic : {wire::kPairOfferMagic, wire::kPairAcceptMagic, wire::kPairGoMagic,
                               wire::kPairGoneMagic, 0x12345678u}) {
    Connect(/*has_slots=*/true);
    wire::PairFrame frame{};
    frame.magic = magic;
    Write(frame);
    ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
    EXPECT_THAT(lane_->recv->status().message(), Mentions("unexpected frame"));
  }
  ExpectVictimCarries();
}

TEST_F(RdmaHostileTest, AnotherVersionOrShapeIsNamed) {
  wire::LaneHello version = Hello(), shape = Hello(), counts = Hello();
  version.version = 9;
  shape.slot_bytes = 1;
  counts.number = 1'000;
  for (const auto& [hello, text] :
       {std::pair{version, "version 9"}, std::pair{shape, "slots of 1 bytes"},
        std::pair{counts, "counts 1000 delivered slices"}}) {
    Connect(/*has_slots=*/true);
    Write(hello);
    ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
    EXPECT_THAT(lane_->recv->status().message(), Mentions(text));
  }
  ExpectVictimCarries();
}

TEST_F(RdmaHostileTest, AnOfferOfAnUnknownPairIsRejected) {
  Connect(/*has_slots=*/true);
  Write(Hello());
  Read<wire::LaneHello>();
  wire::PairFrame offer{};
  offer.magic = wire::kPairOfferMagic;
  offer.connected = 1;
  offer.gid = nic(0).attributes().gid;
  Write(offer);
  EXPECT_EQ(Read<wire::PairFrame>().magic, wire::kPairGoneMagic);
  EXPECT_NE(lane_->recv->state(), LaneState::kFailed);
  ExpectVictimCarries();
}

// Its queue pair would connect to another host.
TEST_F(RdmaHostileTest, AGidOfAnotherHostEndsTheLane) {
  Connect(/*has_slots=*/true);
  wire::LaneHello hello = Hello();
  hello.gid = nic(2).attributes().gid;
  Write(hello);
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("its GID", AddressOf(2), AddressOf(0)));
  ExpectVictimCarries();
}

// Each of its connections asks for another queue pair, faster than the device makes them.
TEST_F(RdmaHostileTest, APeerThatConnectsAgainAndAgainQueuesNoWork) {
  Connect(/*has_slots=*/true);
  const size_t pairs = host(1).pairs().size();
  jobs_held_ = true;
  for (int i = 0; i < 200; ++i) {
    auto [own, peer] = ConnectStreams(0, 1);
    stream_ = std::move(own);
    lane_->recv->Attach(std::move(peer));
    wire::LaneHello hello = Hello();
    hello.source_port = static_cast<uint16_t>(1'000 + i);
    Write(hello);
    wire::PairFrame offer{};
    offer.magic = wire::kPairOfferMagic;
    offer.gid = nic(0).attributes().gid;
    offer.queue_pair = 1;
    offer.mtu_bytes = 4096;
    offer.pair[0] = static_cast<uint8_t>(i + 1);
    offer.receives = 64;
    bool answered = false;
    RunUntil([&, left = 100]() mutable {
      wire::LaneFrame answer;
      const iovec whole{.iov_base = answer.data(), .iov_len = answer.size()};
      const auto got = stream_->Read({&whole, 1});
      answered |= got.ok() && *got > 0;
      return answered || left-- == 0;
    });
    if (answered) Write(offer);
    RunUntil([left = 20]() mutable { return left-- == 0; });
    ASSERT_NE(lane_->recv->state(), LaneState::kFailed) << lane_->recv->status();
  }
  EXPECT_LE(host(1).pairs().size(), pairs + 1);
  EXPECT_LE(runners_[1]->size(), 4u);
  jobs_held_ = false;
  lane_.reset();
  ExpectVictimCarries();
  EXPECT_TRUE(RunUntil([&] { return nic(1).queue_pairs() == pairs; }));
}

// A program of the tenant on host 2 has the secret of one of its communicators. It acts as the
// daemon of its host, whose queue pair with host 1 carries the victim's lane, and others.
class RdmaImpostorTest : public RdmaHostileTest {
 protected:
  // Starts a lane to host 1, which makes the queue pairs.
  wire::PairFrame BeginLane() {
    lane_ = std::make_unique<Lane>();
    GiveSlots(*lane_);
    lane_->recv = host(1).transport.MakeRecvLane(IdentityAt(false, 2, 1, 0, kTenant), kShape,
                                                 SpanOf(lane_->slots));
    AttachTo(*lane_->recv, /*pair_failed=*/0);
    return Read<wire::PairFrame>();
  }
  void AttachTo(RecvLane& lane, uint32_t pair_failed) {
    auto [own, peer] = ConnectStreams(2, 1);
    stream_ = std::move(own);
    lane.Attach(std::move(peer));
    wire::LaneHello hello = Hello();
    hello.gid = nic(2).attributes().gid;
    hello.pair_failed = pair_failed;
    Write(hello);
    Read<wire::LaneHello>();
  }
  std::shared_ptr<PeerPair> SharedPair() {
    return *host(1).pairs().FindOrMake({.queues = IdentityAt(false, 2, 1, 0, kTenant).queues,
                                        .peer_gid = nic(2).attributes().gid});
  }
};

TEST_F(RdmaImpostorTest, TheNameOfASharedPairIsNotRevealed) {
  const std::shared_ptr<PeerPair> shared = SharedPair();
  ASSERT_TRUE(shared->usable());
  const wire::PairFrame offer = BeginLane();
  EXPECT_EQ(offer.magic, wire::kPairOfferMagic);
  EXPECT_EQ(offer.connected, 1u);
  EXPECT_NE(offer.pair, shared->name());
  EXPECT_EQ(offer.pair, shared->id());
}

TEST_F(RdmaImpostorTest, ToRejectASharedPairBreaksNoOtherLane) {
  Lane& other = Open(2, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(other); }));
  const std::shared_ptr<PeerPair> shared = SharedPair();
  wire::PairFrame offer = BeginLane();
  for (int rejected = 0; rejected < 2; ++rejected) {
    wire::PairFrame gone{};
    gone.magic = wire::kPairGoneMagic;
    Write(gone);
    offer = Read<wire::PairFrame>();
    EXPECT_EQ(offer.magic, wire::kPairOfferMagic);
    EXPECT_EQ(offer.connected, 0u) << "a fresh one";
  }
  EXPECT_TRUE(shared->usable());
  EXPECT_TRUE(Ready(other));
  ExpectVictimCarries();
}

// With the lane number of another lane, slices would arrive there.
TEST_F(RdmaImpostorTest, ToAcceptASharedPairNeedsItsName) {
  for (const bool other_number : {false, true}) {
    const std::shared_ptr<PeerPair> shared = SharedPair();
    wire::PairFrame accept = BeginLane();
    accept.magic = wire::kPairAcceptMagic;
    accept.gid = nic(2).attributes().gid;
    accept.queue_pair = shared->peer_number().value() + (other_number ? 1 : 0);
    accept.lane = 1;
    Write(accept);
    ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
    EXPECT_THAT(lane_->recv->status().message(), Mentions("whose name it does not have"));
    EXPECT_TRUE(shared->usable());
    ExpectVictimCarries();
  }
}

TEST_F(RdmaImpostorTest, ToReportAFailureNeedsTheName) {
  Lane& other = Open(2, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(other); }));
  const std::shared_ptr<PeerPair> shared = SharedPair();
  AttachTo(*other.recv, /*pair_failed=*/1);
  EXPECT_TRUE(shared->usable());
  ExpectVictimCarries();
}

// The others do not wait for ever for a queue pair that it introduces.
TEST_F(RdmaImpostorTest, AnIntroductionThatIsNotAnsweredDelaysOthersForAMoment) {
  host(1).pairs().Withdraw(*SharedPair());
  const wire::PairFrame offer = BeginLane();
  EXPECT_EQ(offer.connected, 0u);
  Lane& other = Open(2, 1);
  const MonotonicNs begin = clock_.Now();
  EXPECT_TRUE(RunUntil([&] { return Ready(other); }));
  EXPECT_LT(clock_.Now(), begin + 4 * kNsPerSec);
  ExpectVictimCarries();
}

TEST_F(RdmaHostileTest, ToOfferASharedPairNeedsItsName) {
  MakeReady(/*has_slots=*/true);
  wire::PairFrame offer = FrameOf(*pair_, wire::kPairOfferMagic);
  offer.pair = pair_->id();
  offer.connected = 1;
  const std::unique_ptr<Lane> first = std::move(lane_);
  lane_ = std::make_unique<Lane>();
  lane_->recv =
      host(1).transport.MakeRecvLane(IdentityAt(false, 0, 1, 0, kTenant), kShape, RegionSpan{});
  auto [sender, receiver] = ConnectStreams(0, 1);
  stream_ = std::move(sender);
  lane_->recv->Attach(std::move(receiver));
  Write(Hello());
  Read<wire::LaneHello>();
  Write(offer);
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("whose name it does not have"));
  EXPECT_EQ(first->recv->state(), LaneState::kReady);
}

TEST_F(RdmaHostileTest, AnOfferOfTooFewReceivesEndsTheLane) {
  Connect(/*has_slots=*/true);
  Write(Hello());
  Read<wire::LaneHello>();
  wire::PairFrame offer{};
  offer.magic = wire::kPairOfferMagic;
  offer.gid = nic(0).attributes().gid;
  offer.receives = kLeastReceives - 1;
  Write(offer);
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("grants 3 receives", "4 to 255"));
  ExpectVictimCarries();
}

// The places that the lane has given, of the messages that host 0 has received.
std::vector<wire::CreditMessage> CreditsIn(const std::vector<wire::PairMessage>& messages) {
  std::vector<wire::CreditMessage> credits;
  for (const wire::PairMessage& message : messages) {
    if (message.kind != wire::PairMessageKind::kCredit) continue;
    credits.push_back(std::bit_cast<wire::CreditMessage>(message));
  }
  return credits;
}

TEST_F(RdmaHostileTest, ASliceInAPlaceNeverGivenEndsTheLane) {
  MakeReady(/*has_slots=*/true);
  wire::PairMessage tag{};
  tag.kind = wire::PairMessageKind::kTag;
  tag.lane = peer_lane_;
  pair_->Send(number_, tag);
  pair_->Write(number_, WorkRequest{}, {.lane = peer_lane_, .placed = true}, 0, nullptr);
  pair_->Flush();
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("in a place never given"));
  ExpectVictimCarries();
}

TEST_F(RdmaHostileTest, ASliceOfAnotherLengthThanItsPlaceEndsTheLane) {
  MakeReady(/*has_slots=*/true);
  std::vector<std::byte> there(20'000);
  ASSERT_TRUE(lane_->recv->Expect(0, SpanOf(there), {}));
  ASSERT_TRUE(RunUntil([&] { return !CreditsIn(user_.messages).empty(); }));
  const wire::CreditMessage credit = CreditsIn(user_.messages).front();
  ASSERT_EQ(credit.places, 1);
  wire::PairMessage tag{};
  tag.kind = wire::PairMessageKind::kTag;
  tag.lane = peer_lane_;
  pair_->Send(number_, tag);
  const std::byte eight[8] = {};
  WorkRequest write;
  write.local = eight;
  write.bytes = sizeof(eight);
  write.inlined = true;
  write.remote_address = credit.addresses[0];
  write.remote_key = credit.key;
  pair_->Write(number_, write, {.lane = peer_lane_, .placed = true}, 0, nullptr);
  pair_->Flush();
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("has 8 bytes, its place 20000"));
  ExpectVictimCarries();
}

// The tenant's buffer has gone, and its pages may belong to somebody else. Also the end of the lane
// and of the communicator end the access.
TEST_F(RdmaHostileTest, ALateWriteIntoABufferThatHasGoneIsRefused) {
  for (const bool lane_ends : {false, true}) {
    MakeReady(/*has_slots=*/true);
    const std::unique_ptr<Lane> second = JoinPair();  // the queue pair survives the first lane
    constexpr size_t kBytes = 20'000;
    const OwnedMemory buffer(std::vector<std::byte>(kBytes, std::byte{0x5a}));
    ASSERT_TRUE(lane_->recv->Expect(0, WholeOf(buffer), {}));
    user_.messages.clear();
    ASSERT_TRUE(RunUntil([&] { return !CreditsIn(user_.messages).empty(); }));
    const wire::CreditMessage credit = CreditsIn(user_.messages).front();
    if (lane_ends) lane_->recv.reset();
    auto token = std::make_shared<int>();
    const std::weak_ptr<int> in_use = token;
    host(1).transport.Forget(buffer, std::move(token));
    ASSERT_TRUE(RunUntil([&] { return in_use.expired(); }));

    const uint64_t refused = nic(1).access_errors();
    const std::byte eight[8] = {};
    WorkRequest write;
    write.local = eight;
    write.bytes = sizeof(eight);
    write.inlined = true;
    write.remote_address = credit.addresses[0];
    write.remote_key = credit.key;
    ASSERT_TRUE(pair_->usable());
    pair_->Write(number_, write, {.lane = peer_lane_, .placed = true}, 0, nullptr);
    pair_->Flush();
    ASSERT_TRUE(RunUntil([&] { return !pair_->status().ok(); }));
    EXPECT_EQ(std::ranges::count(buffer.span(), std::byte{0x5a}), static_cast<ptrdiff_t>(kBytes));
    EXPECT_EQ(nic(1).access_errors(), refused + 1);
    ExpectVictimCarries();
    pair_->Leave(number_);
    pair_.reset();
    lane_.reset();
  }
}

TEST_F(RdmaHostileTest, AnOfferOfAPairOfOtherLanesEndsTheLane) {
  MakeReady(/*has_slots=*/true);
  const wire::PairFrame own = FrameOf(*pair_, wire::kPairOfferMagic);
  const std::unique_ptr<Lane> first = std::move(lane_);
  lane_ = std::make_unique<Lane>();
  lane_->recv =
      host(1).transport.MakeRecvLane(IdentityAt(false, 0, 1, 0, "another"), kShape, RegionSpan{});
  auto [sender, receiver] = ConnectStreams(0, 1);
  stream_ = std::move(sender);
  lane_->recv->Attach(std::move(receiver));
  Write(Hello());
  Read<wire::LaneHello>();
  Write(own);
  ASSERT_TRUE(RunUntil([&] { return lane_->recv->state() == LaneState::kFailed; }));
  EXPECT_THAT(lane_->recv->status().message(), Mentions("a queue pair of other lanes"));
  EXPECT_EQ(first->recv->state(), LaneState::kReady);
  ExpectVictimCarries();
}

// Whatever it sends, only its own lane ends.
TEST_F(RdmaHostileTest, RandomMessagesAndImmediatesHurtNoOtherLane) {
  const uint64_t first = std::random_device()();
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    MakeReady(/*has_slots=*/random() % 2 == 0);
    std::vector<std::byte> memory(20'000);
    lane_->recv->Expect(random() % 2, SpanOf(memory), {});
    for (int i = 0; i < 50; ++i) {
      const auto some = [&](uint64_t small) {
        return random() % 4 == 0 ? random() : random() % small;
      };
      if (pair_->Claim(number_, 1) && random() % 3 > 0) {
        wire::PairMessage message{};
        message.kind = static_cast<wire::PairMessageKind>(random() % 8);
        message.returned = static_cast<uint8_t>(random());
        message.lane = random() % 8 == 0 ? static_cast<uint16_t>(random()) : peer_lane_;
        message.key = static_cast<uint32_t>(some(2));
        message.number = some(3);
        message.bytes = some(100);
        pair_->Send(number_, message);
      } else if (pair_->Claim(number_, 1)) {
        WorkRequest write;  // of no bytes: it needs no key
        pair_->Write(number_, write,
                     {.lane = peer_lane_,
                      .placed = random() % 2 == 0,
                      .slice = static_cast<uint8_t>(some(2))},
                     0, nullptr);
      }
      pair_->Flush();
      if (random() % 2 == 0) RunUntil([n = random() % 20]() mutable { return n-- == 0; });
    }
    ExpectVictimCarries();
    pair_->Leave(number_);
    pair_.reset();
    lane_.reset();
    if (HasFailure()) return;
  }
}

}  // namespace rdma_hostile_test
}  // namespace mccs
