#include "service/transport/rdma/rdma_lane_link.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

// A correct peer sends four frames at most on one connection.
constexpr int kFramesPerPoll = 4;
constexpr int kMaxRejected = 2;

}  // namespace

void RdmaLaneLink::Attach(std::unique_ptr<Connection> connection, const SharedQueueKey& queues) {
  step_ = Step::kIdle;
  ReadFault();
  lost_.reset();
  if (!link_.Attach(std::move(connection))) return;
  out_.clear();
  out_bytes_ = in_bytes_ = 0;
  stalls_ = offered_again_ = false;
  rejected_ = 0;
  queues_ = queues;
  step_ = role_ == Role::kSender ? Step::kHello : Step::kPeerHello;
}

bool RdmaLaneLink::Poll() {
  if (link_.get() == nullptr) return ReadFault();
  bool moved = TrySendHello();
  if (link_.get() != nullptr && step_ == Step::kGo && pair_->usable()) {
    BecomeReady();
    moved = true;
  }
  if (link_.get() != nullptr) moved |= ReadFrames();
  if (link_.get() != nullptr) moved |= TrySendHello();
  if (link_.get() != nullptr) moved |= WriteFrames();
  if (link_.get() != nullptr && step_ == Step::kReady && pair_->settled() && !stalls_) {
    link_.Stall(LostStatus(pair_->status()));
  }
  return moved || link_.get() == nullptr;
}

void RdmaLaneLink::LeavePair() {
  if (pair_ != nullptr) pair_->Leave(number_);
  pair_.reset();
}

// ---- The exchange -------------------------------------------------------------------------------

bool RdmaLaneLink::TrySendHello() {
  if (step_ != Step::kHello) return false;
  std::optional<wire::LaneHello> hello = owner_.MakeHello();
  if (!hello.has_value()) return false;
  const NicAttributes* const nic = pairs_.Attributes(queues_.domain.nic);
  if (nic == nullptr) {
    link_.Stall(absl::NotFoundError(
        absl::StrCat("no RDMA device has address ", queues_.domain.nic.address)));
    return true;
  }
  LeavePair();
  hello->magic = wire::kLaneHelloMagic;
  hello->version = wire::kRdmaLaneVersion;
  hello->gid = nic->gid;
  Push(*hello);
  if (role_ == Role::kSender) {
    step_ = Step::kPeerHello;
  } else {
    BeginPair();
  }
  return true;
}

void RdmaLaneLink::OnHelloFrame(const wire::LaneHello& hello) {
  if (hello.version != wire::kRdmaLaneVersion) {
    return link_.Fail("it has version ", hello.version, " of the RDMA lane protocol, this end ",
                      wire::kRdmaLaneVersion);
  }
  peer_gid_ = hello.gid;
  peer_source_port_ = hello.source_port;
  owner_.OnHello(hello);
  if (link_.get() == nullptr) return;
  if (role_ == Role::kSender) {
    BeginPair();
  } else {
    step_ = Step::kHello;
  }
}

void RdmaLaneLink::BeginPair() {
  step_ = Step::kPair;
  const Gid& own = pairs_.Attributes(queues_.domain.nic)->gid;
  maker_ = own < peer_gid_ || (own == peer_gid_ && role_ == Role::kSender);
  if (!maker_) return;
  absl::StatusOr<std::shared_ptr<PeerPair>> pair = pairs_.FindOrMake(KeyOfPair());
  if (!pair.ok()) return link_.Stall(pair.status());
  JoinPair(*std::move(pair));
  if (link_.get() != nullptr) PushPairFrame(wire::kPairOfferMagic);
}

PairKey RdmaLaneLink::KeyOfPair() const {
  return {.queues = queues_,
          .peer_gid = peer_gid_,
          .traffic_class = static_cast<uint8_t>(link_.dscp() << 2),
          .source_port = 0,
          .peer_source_port = role_ == Role::kReceiver ? peer_source_port_ : uint16_t{0}};
}

void RdmaLaneLink::JoinPair(std::shared_ptr<PeerPair> pair) {
  LeavePair();
  const absl::StatusOr<LaneNumber> number = pair->Join(*this);
  if (!number.ok()) return link_.Stall(number.status());
  number_ = *number;
  pair_ = std::move(pair);
}

void RdmaLaneLink::OnPairFrame(const wire::PairFrame& frame) {
  switch (frame.magic) {
    case wire::kPairOfferMagic: {
      if (step_ != Step::kPair || maker_) return FailUnexpected(frame.magic);
      if (frame.gid != peer_gid_) return link_.Fail("it offers a queue pair of another NIC");
      absl::StatusOr<std::shared_ptr<PeerPair>> pair = pairs_.Accept(KeyOfPair(), frame);
      if (!pair.ok()) return link_.Stall(pair.status());
      if (*pair == nullptr) {
        if (++rejected_ > kMaxRejected) return link_.Fail("it offers only pairs that have ended");
        wire::PairFrame gone{};
        gone.magic = wire::kPairGoneMagic;
        return Push(gone);
      }
      JoinPair(*std::move(pair));
      if (link_.get() == nullptr) return;
      peer_lane_ = static_cast<uint16_t>(frame.lane);
      PushPairFrame(wire::kPairAcceptMagic);
      step_ = Step::kGo;
      return;
    }
    case wire::kPairAcceptMagic:
      if (step_ != Step::kPair || !maker_) return FailUnexpected(frame.magic);
      if (frame.gid != peer_gid_) return link_.Fail("it accepts with a queue pair of another NIC");
      if (pair_->connected() && pair_->peer_number() != QueuePairNumber(frame.queue_pair)) {
        return OfferAnother();  // the peer's first end has ended
      }
      peer_lane_ = static_cast<uint16_t>(frame.lane);
      if (!pair_->connected()) {
        const absl::Status connected = pair_->Connect(wire::AddressIn(frame), frame.receives);
        if (!connected.ok()) return pair_->Break(connected);
        pair_->SetUsable();
      }
      PushPairFrame(wire::kPairGoMagic);
      return BecomeReady();
    case wire::kPairGoneMagic:
      if (step_ == Step::kReady && role_ == Role::kSender) {
        return pair_->Break(absl::UnavailableError("the peer's end has failed"));
      }
      if (step_ != Step::kPair || !maker_) return FailUnexpected(frame.magic);
      return OfferAnother();
    case wire::kPairGoMagic:
      if (step_ == Step::kReady && !maker_) return;
      if (step_ != Step::kGo) return FailUnexpected(frame.magic);
      pair_->SetUsable();
      return BecomeReady();
    default:
      return FailUnexpected(frame.magic);
  }
}

void RdmaLaneLink::OfferAnother() {
  // Of the pairs of lanes that were set up at the same time, one at most is found to have ended.
  if (std::exchange(offered_again_, true)) {
    return link_.Stall(absl::UnavailableError("the peer rejected two queue pairs"));
  }
  const std::shared_ptr<PeerPair> gone = pair_;
  LeavePair();
  gone->Break(absl::UnavailableError("the peer's end has failed"));
  BeginPair();
}

void RdmaLaneLink::BecomeReady() {
  step_ = Step::kReady;
  link_.SetReady();
  owner_.OnReady();
}

void RdmaLaneLink::FailUnexpected(uint32_t magic) {
  link_.Fail("unexpected frame: it begins with 0x", absl::Hex(magic));
}

// ---- The queue pair -----------------------------------------------------------------------------

// The maker has connected the pair, though its frame may arrive later.
void RdmaLaneLink::OnArrival() {
  pair_->SetUsable();
  if (step_ == Step::kGo && link_.get() != nullptr) BecomeReady();
}

void RdmaLaneLink::OnMessage(const wire::PairMessage& message) {
  OnArrival();
  owner_.OnMessage(message);
}

void RdmaLaneLink::OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) {
  OnArrival();
  owner_.OnWritten(immediate, bytes);
}

void RdmaLaneLink::OnPairLost(const absl::Status& why) {
  const bool uses = step_ == Step::kPair || step_ == Step::kGo || step_ == Step::kReady;
  // A ready sender first learns of all its completions (Poll).
  const bool waits = role_ == Role::kSender && step_ == Step::kReady;
  if (uses && link_.get() != nullptr && !waits) {
    std::unique_ptr<Connection> connection = link_.Detach(LostStatus(why));
    if (step_ == Step::kReady) lost_ = AnnounceLoss(std::move(connection));
  }
  owner_.OnPairLost();
}

absl::Status RdmaLaneLink::LostStatus(const absl::Status& why) const {
  return absl::UnavailableError(
      absl::StrCat("queue pair with ", ToString(link_.remote()), ": ", why.message()));
}

// Returns the connection, on which the sender may answer; null: it does not take the frame now.
std::unique_ptr<Connection> RdmaLaneLink::AnnounceLoss(
    std::unique_ptr<Connection> connection) const {
  if (!out_.empty()) return nullptr;  // it must not overtake them
  wire::PairFrame gone{};
  gone.magic = wire::kPairGoneMagic;
  const iovec whole{.iov_base = &gone, .iov_len = sizeof(gone)};
  const absl::StatusOr<size_t> written = connection->Write({&whole, 1});
  return written.ok() && *written == sizeof(gone) ? std::move(connection) : nullptr;
}

void RdmaLaneLink::SendFault(SliceNumber number, RemoteKey key) {
  if (stalls_) return;
  wire::WriteFault fault{};
  fault.magic = wire::kWriteFaultMagic;
  fault.number = number;
  fault.key = key.value();
  Push(fault);
  stalls_ = true;
}

// ---- The stream ---------------------------------------------------------------------------------

template <typename Frame>
void RdmaLaneLink::Push(const Frame& frame) {
  out_.push_back(std::bit_cast<wire::LaneFrame>(frame));
}

void RdmaLaneLink::PushPairFrame(uint32_t magic) {
  const QueuePairAddress address = pair_->queue_pair().address();
  wire::PairFrame frame{};
  frame.magic = magic;
  frame.queue_pair = address.number.value();
  frame.first_packet = address.first_packet;
  frame.mtu_bytes = address.mtu_bytes;
  frame.lid = address.lid;
  frame.gid = address.gid;
  frame.name = pair_->name();
  frame.lane = number_.value();
  frame.receives = pair_->receives();
  frame.connected = pair_->connected() ? 1 : 0;
  Push(frame);
}

bool RdmaLaneLink::WriteFrames() {
  bool moved = false;
  while (!out_.empty() && link_.get()->writable()) {
    const iovec rest{.iov_base = out_.front().data() + out_bytes_,
                     .iov_len = out_.front().size() - out_bytes_};
    const absl::StatusOr<size_t> written = link_.get()->Write({&rest, 1});
    if (!written.ok()) {
      link_.Stall(written.status());
      return true;
    }
    if (*written == 0) break;
    moved = true;
    out_bytes_ += *written;
    if (out_bytes_ < out_.front().size()) break;
    out_.pop_front();
    out_bytes_ = 0;
  }
  if (stalls_ && out_.empty()) {
    link_.Stall(absl::UnavailableError("the peer's NIC did not accept a write"));
    return true;
  }
  return moved;
}

bool RdmaLaneLink::ReadFrames() {
  bool moved = false;
  int left = kFramesPerPoll;
  while (left > 0 && link_.get() != nullptr && link_.get()->readable()) {
    const iovec rest{.iov_base = in_.data() + in_bytes_, .iov_len = in_.size() - in_bytes_};
    const absl::StatusOr<size_t> got = link_.get()->Read({&rest, 1});
    if (!got.ok()) {
      link_.Stall(got.status());
      return true;
    }
    if (*got == 0) break;
    moved = true;
    in_bytes_ += *got;
    if (in_bytes_ < in_.size()) continue;
    in_bytes_ = 0;
    --left;
    OnFrame(in_);
  }
  return moved;
}

// Returns true if the lane has ended.
bool RdmaLaneLink::ReadFault() {
  while (lost_ != nullptr && lost_->readable()) {
    const iovec rest{.iov_base = in_.data() + in_bytes_, .iov_len = in_.size() - in_bytes_};
    const absl::StatusOr<size_t> got = lost_->Read({&rest, 1});
    if (!got.ok()) lost_.reset();
    if (!got.ok() || *got == 0) return false;
    in_bytes_ += *got;
    if (in_bytes_ < in_.size()) continue;
    const auto fault = std::bit_cast<wire::WriteFault>(in_);
    lost_.reset();
    in_bytes_ = 0;
    if (fault.magic == wire::kWriteFaultMagic) owner_.OnFault(fault);
    return link_.failed();
  }
  return false;
}

void RdmaLaneLink::OnFrame(const wire::LaneFrame& frame) {
  uint32_t magic;
  std::memcpy(&magic, frame.data(), sizeof(magic));
  switch (magic) {
    case wire::kLaneHelloMagic:
      if (step_ != Step::kPeerHello) return FailUnexpected(magic);
      return OnHelloFrame(std::bit_cast<wire::LaneHello>(frame));
    case wire::kPairOfferMagic:
    case wire::kPairAcceptMagic:
    case wire::kPairGoneMagic:
    case wire::kPairGoMagic:
      return OnPairFrame(std::bit_cast<wire::PairFrame>(frame));
    case wire::kWriteFaultMagic:
      if (role_ != Role::kReceiver || step_ != Step::kReady) return FailUnexpected(magic);
      return owner_.OnFault(std::bit_cast<wire::WriteFault>(frame));
    default:
      return FailUnexpected(magic);
  }
}

}  // namespace mccs
