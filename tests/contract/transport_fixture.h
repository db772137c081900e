// Two hosts, a transport and lanes between them, for the contract of Transport.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_FIXTURE_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/transport/lane.h"
#include "service/transport/network.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {

// Two hosts and a network between them, in one thread.
class TransportWorld {
 public:
  struct Ends {
    std::unique_ptr<Connection> sender;
    std::unique_ptr<Connection> receiver;
  };

  // Of all lanes.
  static constexpr const char* kTenant = "a";

  virtual ~TransportWorld() = default;
  // Of the receiving host.
  virtual Transport& transport() = 0;
  // Of the sending host, if it needs its own.
  virtual Transport& sender() { return transport(); }
  // Returns an open stream between the two hosts.
  virtual Ends Connect() = 0;
  // Delivers bytes and advances time.
  virtual void Advance() = 0;
  // Breaks the connection that lanes with this key share. Returns false if each lane has its own.
  virtual bool BreakShared(const SharedQueueKey&) { return false; }
};

struct TransportWorldMaker {
  std::string name;
  std::function<std::unique_ptr<TransportWorld>(uint64_t seed)> make;
};

// Forwards to a connection and cuts it after a number of bytes.
class CutConnection final : public Connection {
 public:
  CutConnection(std::unique_ptr<Connection> inner, size_t bytes_until_cut)
      : inner_(std::move(inner)), left_(bytes_until_cut) {}

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    return Limited(pieces, &Connection::Write);
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    return Limited(pieces, &Connection::Read);
  }
  bool readable() const override { return inner_ == nullptr || inner_->readable(); }
  bool writable() const override { return inner_ == nullptr || inner_->writable(); }
  void SetWaker(Waker* waker) override {
    if (inner_ != nullptr) inner_->SetWaker(waker);
  }
  Endpoint local() const override { return inner_ ? inner_->local() : Endpoint{}; }
  Endpoint remote() const override { return inner_ ? inner_->remote() : Endpoint{}; }

  void CutNow() {
    inner_.reset();
    left_ = 0;
  }

 private:
  using Call = absl::StatusOr<size_t> (Connection::*)(std::span<const iovec>);

  absl::StatusOr<size_t> Limited(std::span<const iovec> pieces, Call call) {
    if (left_ == 0) inner_.reset();
    if (inner_ == nullptr) return absl::UnavailableError("cut by the test");
    std::vector<iovec> some;
    size_t room = left_;
    for (iovec piece : pieces) {
      piece.iov_len = std::min(piece.iov_len, room);
      room -= piece.iov_len;
      if (piece.iov_len > 0) some.push_back(piece);
    }
    absl::StatusOr<size_t> moved = (inner_.get()->*call)(some);
    if (moved.ok()) left_ -= *moved;
    return moved;
  }

  std::unique_ptr<Connection> inner_;
  size_t left_;
};

class TransportContract : public testing::TestWithParam<TransportWorldMaker> {
 protected:
  static constexpr int kMaxRounds = 200'000;

  // Both ends of one lane and the memory of its slots.
  struct LanePair {
    std::vector<std::byte> slots;
    std::unique_ptr<SendLane> send;
    std::unique_ptr<RecvLane> recv;
    CutConnection* connection = nullptr;  // the sender's, while it exists
  };

  // The lane's identity at each end: the same but for the peer and the NIC.
  static LaneIdentity IdentityAt(bool sender, ChannelId channel = {}) {
    const std::string own = sender ? "10.0.0.1" : "10.0.0.2",
                      other = sender ? "10.0.0.2" : "10.0.0.1";
    return {.communicator = CommId(0x2a),
            .epoch = Epoch(1),
            .channel = channel,
            .from = HostIndex(0),
            .to = HostIndex(1),
            .queues = {.peer = {other, 7400},
                       .domain = {.nic = {own}, .tenant = TransportWorld::kTenant},
                       .traffic_class = TrafficClass(3)}};
  }

  void Start(const LaneShape& shape, uint64_t seed = 1) {
    StartWithoutConnection(shape, seed);
    Attach();
  }
  void StartWithoutConnection(const LaneShape& shape, uint64_t seed = 1) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    recv_.reset();
    send_.reset();
    others_.clear();
    world_ = GetParam().make(seed);
    shape_ = shape;
    slots_.assign(size_t{shape.slots} * shape.slot_bytes + 2 * kGuard, kFill);
    MakeLanes();
  }
  void MakeLanes() {
    send_ = world_->sender().MakeSendLane(IdentityAt(true), shape_);
    recv_ = world_->transport().MakeRecvLane(
        IdentityAt(false), shape_, SpanAt(slots_.data() + kGuard, slots_.size() - 2 * kGuard));
  }
  // A lane that only receives in place.
  void StartWithoutSlots(const LaneShape& shape, uint64_t seed = 1) {
    StartWithoutConnection(shape, seed);
    recv_ = world_->transport().MakeRecvLane(IdentityAt(false), shape, {});
    Attach();
  }

  void Attach() {
    TransportWorld::Ends ends = world_->Connect();
    send_->Attach(std::move(ends.sender));
    recv_->Attach(std::move(ends.receiver));
  }

  // Another lane of the same shape and SharedQueueKey.
  LanePair& AddLane(ChannelId channel) {
    LanePair& pair = *others_.emplace_back(std::make_unique<LanePair>());
    pair.slots.assign(size_t{shape_.slots} * shape_.slot_bytes, kFill);
    Make(pair, channel);
    return pair;
  }
  // Makes both ends (again) and connects them.
  void Make(LanePair& pair, ChannelId channel) {
    pair.send = world_->sender().MakeSendLane(IdentityAt(true, channel), shape_);
    pair.recv =
        world_->transport().MakeRecvLane(IdentityAt(false, channel), shape_, SpanOf(pair.slots));
    Attach(pair);
  }
  void Attach(LanePair& pair) {
    TransportWorld::Ends ends = world_->Connect();
    auto connection = std::make_unique<CutConnection>(std::move(ends.sender), size_t{1} << 40);
    pair.connection = connection.get();
    pair.send->Attach(std::move(connection));
    pair.recv->Attach(std::move(ends.receiver));
  }

  // Polls all lanes and the network until `done`. Returns false if that never happens. Deferred
  // acknowledgements become due when nothing else happens.
  bool RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < kMaxRounds; ++i) {
      if (done()) return true;
      bool moved = world_->transport().Poll();
      if (&world_->sender() != &world_->transport()) moved |= world_->sender().Poll();
      moved |= send_ != nullptr && send_->Poll();
      moved |= recv_ != nullptr && recv_->Poll();
      for (const auto& pair : others_) {
        moved |= pair->send != nullptr && pair->send->Poll();
        moved |= pair->recv != nullptr && pair->recv->Poll();
      }
      if (moved) continue;
      if (recv_ != nullptr) AcknowledgeIfDue(*recv_);
      for (const auto& pair : others_) {
        if (pair->recv != nullptr) AcknowledgeIfDue(*pair->recv);
      }
      world_->Advance();
    }
    return done();
  }
  void AcknowledgeIfDue(RecvLane& lane) const {
    if (acknowledges_) lane.Acknowledge();
  }

  // Polls until nothing has happened for a long time.
  void Settle() {
    int quiet = 0;
    RunUntil([&] { return ++quiet > 300; });
  }

  static SliceTag TagOf(uint64_t value) {
    SliceTag tag{};
    std::memcpy(tag.data(), &value, sizeof(value));
    return tag;
  }

  static std::vector<std::byte> Payload(uint64_t number, size_t bytes) {
    std::vector<std::byte> payload(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      payload[i] = static_cast<std::byte>((number * 131 + i * 7 + (i >> 8)) & 0xff);
    }
    return payload;
  }

  std::optional<SliceNumber> Post(const std::vector<std::byte>& payload, const SliceTag& tag) {
    return Post(*send_, payload, tag);
  }
  // A temporary payload lives as long as the fixture.
  std::optional<SliceNumber> Post(std::vector<std::byte>&& payload, const SliceTag& tag) {
    return Post(*send_, temporary_.emplace_back(std::move(payload)), tag);
  }
  static std::optional<SliceNumber> Post(SendLane& lane, const std::vector<std::byte>& payload,
                                         const SliceTag& tag) {
    return Post(lane, SpanOf(payload), tag);
  }
  static std::optional<SliceNumber> Post(SendLane& lane, const RegionSpan& piece,
                                         const SliceTag& tag) {
    const bool room = lane.has_room();
    absl::StatusOr<std::optional<SliceNumber>> posted = lane.Post(piece, tag);
    EXPECT_TRUE(posted.ok()) << posted.status();
    EXPECT_EQ(posted.ok() && posted->has_value(), room);
    return posted.ok() ? *posted : std::nullopt;
  }

  bool SlotHolds(SliceNumber n, const std::vector<std::byte>& payload) const {
    return SlotHolds(*recv_, n, payload);
  }
  bool SlotHolds(const RecvLane& lane, SliceNumber n, const std::vector<std::byte>& payload) const {
    return lane.Landed(n) == Landing::kInSlot && lane.Bytes(n) == payload.size() &&
           std::equal(payload.begin(), payload.end(),
                      lane.slots().address() + (n % shape_.slots) * shape_.slot_bytes);
  }
  std::byte* Slot(SliceNumber n) const {
    return recv_->slots().address() + (n % shape_.slots) * shape_.slot_bytes;
  }

  void ExpectGuardsUntouched() const {
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(slots_[i], kFill) << "written before the slots";
      ASSERT_EQ(slots_[slots_.size() - 1 - i], kFill) << "written after the slots";
    }
  }

  static constexpr size_t kGuard = 256;
  static constexpr std::byte kFill{0xa5};

  std::unique_ptr<TransportWorld> world_;
  std::deque<std::vector<std::byte>> temporary_;
  LaneShape shape_;
  std::vector<std::byte> slots_;
  std::unique_ptr<SendLane> send_;
  std::unique_ptr<RecvLane> recv_;
  std::vector<std::unique_ptr<LanePair>> others_;
  bool acknowledges_ = true;  // what is deferred
};

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_FIXTURE_H_
