#include "service/transport/rdma/rdma_lane_link.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "service/transport/rdma/pair_proof.h"

namespace mccs {
namespace {

// A correct peer sends four frames at most on one connection.
constexpr int kFramesPerPoll = 4;
// Queue pairs of lanes that were connected at the same time may have ended, each once.
constexpr int kMaxRejected = 2;

}  // namespace

void RdmaLaneLink::Attach(std::unique_ptr<Connection> connection, const SharedQueueKey& queues) {
  step_ = Step::kIdle;
  if (!link_.Attach(std::move(connection))) return;
  out_.clear();
  out_bytes_ = in_bytes_ = 0;
  rejected_ = 0;
  queues_ = queues;
  step_ = role_ == Role::kSender ? Step::kHello : Step::kPeerHello;
}

bool RdmaLaneLink::Poll() {
  if (link_.get() == nullptr) return false;
  bool moved = TrySendHello();
  moved |= AdvancePair();
  if (link_.get() != nullptr) moved |= ReadFrames();
  if (link_.get() != nullptr) moved |= TrySendHello();
  if (link_.get() != nullptr) moved |= AdvancePair();
  if (link_.get() != nullptr) moved |= WriteFrames();
  if (link_.get() != nullptr && step_ == Step::kReady && pair_->settled()) {
    Lose(pair_->status());
  }
  return moved || link_.get() == nullptr;
}

void RdmaLaneLink::Mark(uint8_t dscp) {
  link_.Mark(dscp);
  const bool differs = link_.get() != nullptr && pair_ != nullptr && step_ > Step::kPeerHello &&
                       pair_->key().ip_traffic_class != KeyOfPair().ip_traffic_class;
  if (differs) link_.Stall(absl::UnavailableError("its traffic class changes"));
}

void RdmaLaneLink::LeavePair() {
  if (pair_ != nullptr) pair_->Leave(number_);
  pair_.reset();
}

// ---- The exchange -------------------------------------------------------------------------------

bool RdmaLaneLink::TrySendHello() {
  if (step_ != Step::kHello) return false;
  // A peer that connects again and again makes one queue pair at a time.
  if (pair_ != nullptr && pair_->in_making()) return false;
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
  hello->nonce = nonce_ = pairs_.MakeNonce();
  const PairKey key = KeyOfPair();
  hello->traffic_class = key.queues.traffic_class.value();
  hello->ip_traffic_class = key.ip_traffic_class;
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
  const NicAttributes* const nic = pairs_.Attributes(queues_.domain.nic);
  const bool is_roce = nic != nullptr && MappedAddress(nic->gid) == queues_.domain.nic.address;
  if (is_roce && MappedAddress(hello.gid) != link_.remote().host) {
    return link_.Fail("its GID is that of \"", MappedAddress(hello.gid), "\", expected ",
                      link_.remote().host);
  }
  peer_gid_ = hello.gid;
  peer_nonce_ = hello.nonce;
  peer_source_port_ = hello.source_port;
  peer_class_ = hello.traffic_class;
  peer_ip_traffic_class_ = hello.ip_traffic_class;
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
  step_ = Step::kMaking;
  JoinPair(*std::move(pair));
}

// Continues when the device has done its part.
bool RdmaLaneLink::AdvancePair() {
  if (pair_ == nullptr || !pair_->status().ok()) return false;
  if (step_ == Step::kMaking && pair_->withdrawn() && !pair_->has_peer()) {
    BeginPair();
    return true;
  }
  if (step_ == Step::kMaking && pair_->made() && (pair_->has_peer() || pair_->Introduce(number_))) {
    PushPairFrame(wire::kPairOfferMagic);
    step_ = Step::kPair;
    return true;
  }
  if (step_ == Step::kAccepting && pair_->connected()) {
    PushPairFrame(wire::kPairAcceptMagic);
    step_ = Step::kGo;
    return true;
  }
  if (step_ == Step::kConnecting && pair_->connected()) {
    pair_->SetUsable();
    PushPairFrame(wire::kPairGoMagic);
    BecomeReady();
    return true;
  }
  if (step_ == Step::kGo && pair_->usable()) {
    BecomeReady();
    return true;
  }
  return false;
}

PairKey RdmaLaneLink::KeyOfPair() const {
  const bool sends = role_ == Role::kSender;
  return {.queues = queues_,
          .peer_gid = peer_gid_,
          .ip_traffic_class = static_cast<uint8_t>(link_.dscp() << 2),
          .source_port = sends ? queues_.source_port : uint16_t{0},
          .peer_source_port = sends ? uint16_t{0} : peer_source_port_,
          .peer_class = peer_class_,
          .peer_ip_traffic_class = peer_ip_traffic_class_};
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
    case wire::kPairOfferMagic:
      return OnOffer(frame);
    case wire::kPairAcceptMagic:
      return OnAccept(frame);
    case wire::kPairGoneMagic:
      if (step_ == Step::kPair && maker_) return OfferAnother();
      // The receiver's lane was ready, perhaps before this end has noticed.
      if (step_ < Step::kConnecting || role_ != Role::kSender) return FailUnexpected(frame.magic);
      if (!wire::Equal(frame.proof, wire::FailureProof(pair_->name()))) {
        return link_.Fail("it reports the end of a queue pair whose name it does not have");
      }
      return pair_->Break(absl::UnavailableError("the peer's end has failed"));
    case wire::kPairGoMagic:
      if (step_ == Step::kReady && !maker_) return;
      if (step_ != Step::kGo) return FailUnexpected(frame.magic);
      pair_->SetUsable();
      return BecomeReady();
    default:
      return FailUnexpected(frame.magic);
  }
}

void RdmaLaneLink::OnOffer(const wire::PairFrame& frame) {
  if (step_ != Step::kPair || maker_) return FailUnexpected(frame.magic);
  if (frame.gid != peer_gid_) return link_.Fail("it offers a queue pair of another NIC");
  const bool sends = role_ == Role::kSender;
  absl::StatusOr<std::shared_ptr<PeerPair>> pair =
      pairs_.Accept(KeyOfPair(), frame, sends ? nonce_ : peer_nonce_, sends ? peer_nonce_ : nonce_);
  if (absl::IsPermissionDenied(pair.status()) || absl::IsInvalidArgument(pair.status())) {
    return link_.Fail(pair.status().message());
  }
  if (!pair.ok()) return link_.Stall(pair.status());
  if (*pair == nullptr) {
    if (++rejected_ > kMaxRejected) return link_.Fail("it offers only pairs that have ended");
    wire::PairFrame gone{};
    gone.magic = wire::kPairGoneMagic;
    return Push(gone);
  }
  step_ = Step::kAccepting;
  JoinPair(*std::move(pair));
  if (link_.get() == nullptr) return;
  peer_lane_ = static_cast<uint16_t>(frame.lane);
}

void RdmaLaneLink::OnAccept(const wire::PairFrame& frame) {
  if (step_ != Step::kPair || !maker_) return FailUnexpected(frame.magic);
  if (frame.gid != peer_gid_) return link_.Fail("it accepts with a queue pair of another NIC");
  if (!wire::Equal(frame.proof, ProofOf(frame))) {
    return link_.Fail("it accepts a queue pair whose name it does not have");
  }
  if (pair_->has_peer() && pair_->peer_number() != QueuePairNumber(frame.queue_pair)) {
    return link_.Fail("it accepts with queue pair ", frame.queue_pair, ", expected ",
                      pair_->peer_number().value());
  }
  peer_lane_ = static_cast<uint16_t>(frame.lane);
  step_ = Step::kConnecting;
  if (pair_->has_peer()) return;
  const absl::Status taken = pair_->SetPeer(wire::AddressIn(frame), frame.receives);
  if (!taken.ok()) return link_.Fail(taken.message());
  pair_->Connect();
}

// The peer has not proven anything: other lanes stay on the pair.
void RdmaLaneLink::OfferAnother() {
  if (++rejected_ > kMaxRejected) {
    return link_.Stall(
        absl::UnavailableError(absl::StrCat("the peer has rejected ", rejected_, " queue pairs")));
  }
  pairs_.Withdraw(*pair_);
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
  const bool uses = step_ > Step::kPeerHello;
  // A ready sender stalls when its completions have been polled (Poll).
  const bool waits = role_ == Role::kSender && step_ == Step::kReady;
  if (uses && link_.get() != nullptr && !waits) {
    if (step_ == Step::kReady) AnnounceLoss(*link_.get());
    Lose(why);
  }
  owner_.OnPairLost();
}

// kUnavailable: another queue pair may do.
void RdmaLaneLink::Lose(const absl::Status& why) {
  if (!absl::IsUnavailable(why)) return link_.FailLocally(why);
  link_.Stall(absl::UnavailableError(
      absl::StrCat("queue pair with ", ToString(link_.remote()), ": ", why.message())));
}

// So that the sender does not wait until its NIC has tried again for long.
void RdmaLaneLink::AnnounceLoss(Connection& connection) const {
  if (!out_.empty()) return;  // it must not overtake them
  wire::PairFrame gone{};
  gone.magic = wire::kPairGoneMagic;
  gone.proof = wire::FailureProof(pair_->name());
  const iovec whole{.iov_base = &gone, .iov_len = sizeof(gone)};
  (void)connection.Write({&whole, 1});
}

// ---- The stream ---------------------------------------------------------------------------------

template <typename Frame>
void RdmaLaneLink::Push(const Frame& frame) {
  out_.push_back(std::bit_cast<wire::LaneFrame>(frame));
}

wire::PairProof RdmaLaneLink::ProofOf(const wire::PairFrame& frame) const {
  const bool sends = role_ == Role::kSender;
  return wire::FrameProof(pair_->name(), frame, sends ? nonce_ : peer_nonce_,
                          sends ? peer_nonce_ : nonce_);
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
  const bool introduces = magic == wire::kPairOfferMagic && !pair_->has_peer();
  frame.pair = introduces ? pair_->name() : pair_->id();
  frame.lane = number_.value();
  frame.receives = pair_->receives();
  frame.connected = pair_->has_peer() ? 1 : 0;
  frame.proof = ProofOf(frame);
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
    default:
      return FailUnexpected(magic);
  }
}

}  // namespace mccs
