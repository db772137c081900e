#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "service/transport/rdma/pair_proof.h"
#include "service/transport/rdma/rdma_lane.h"

namespace mccs {

RdmaSendLane::RdmaSendLane(const LaneIdentity& identity, const LaneShape& shape, RdmaShared& shared)
    : RdmaLaneEnd(RdmaLaneLink::Role::kSender, shared),
      shape_(shape),
      inline_bytes_([&] {
        const NicAttributes* const nic = shared.pairs.Attributes(identity.queues.domain.nic);
        return nic == nullptr ? 0 : nic->inline_bytes;
      }()),
      entries_(shape.slots),
      places_(shape.slots),
      credit_(shape.slots) {
  MCCS_CHECK(shape.slots >= 2);
  SetQueues(identity.queues);
}

absl::StatusOr<std::optional<SliceNumber>> RdmaSendLane::Post(const RegionSpan& payload,
                                                              const SliceTag& tag) {
  if (link().failed()) return status();
  if (payload.bytes > shape_.slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice of ", payload.bytes, " bytes: expected at most ", shape_.slot_bytes));
  }
  if (!has_room()) return std::nullopt;
  Entry& entry = At(next_);
  entry.tag = tag;
  entry.tagged = next_ == 0 || tag != last_tag_;
  entry.payload = payload;
  entry.is_copied = payload.bytes <= inline_bytes_ && payload.is_mapped();
  if (entry.is_copied && payload.bytes > 0) {
    if (entry.copy.size() < payload.bytes) entry.copy.resize(payload.bytes);
    std::memcpy(entry.copy.data(), payload.address(), payload.bytes);
    copied_bytes_ += payload.bytes;
  }
  last_tag_ = tag;
  const SliceNumber number = next_++;
  FreeSources();
  return number;
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool RdmaSendLane::Poll() {
  gate_blocked_ = no_place_ = false;
  bool moved = TakeEvent();
  moved |= link_.Poll();
  if (link_.ready() && link_.pair()->usable()) {
    ReportRate();
    moved |= PostAnnouncements();
    moved |= PostSlices();
    moved |= link_.pair()->Flush();
  }
  if (gate_ != nullptr) ReportToGate();
  return moved;
}

// The NIC may still read the bounce buffer for the last connection.
void RdmaSendLane::Attach(std::unique_ptr<Connection> connection) {
  EndBounce();
  bounced_.reset();
  RdmaLaneEnd::Attach(std::move(connection));
}

void RdmaSendLane::ReportToGate() {
  const bool up = link_.ready();
  gate_->OnTurnEnd({.held = gate_blocked_,
                    .unsent = up && sent_ != next_,
                    .in_flight = up && sent_ > source_free_});
}

void RdmaSendLane::ReportRate() {
  const uint64_t bps = gate_ == nullptr ? 0 : gate_->rate_bps();
  if (rated_pair_ == link_.pair() && rate_bps_ == bps) return;
  rated_pair_ = link_.pair();
  rate_bps_ = bps;
  rated_pair_->SetRate(link_.number(), bps);
}

LaneWait RdmaSendLane::waits_for() const {
  if (sent_ != next_) {
    if (gate_blocked_) return LaneWait::kRate;
    return no_place_ ? LaneWait::kCredit : LaneWait::kConnection;
  }
  return has_room() ? LaneWait::kNothing : LaneWait::kCredit;
}

LaneCounters RdmaSendLane::counters() const {
  return {.slices = acknowledged_,
          .payload_bytes = acknowledged_bytes_,
          .reconnects = link().reconnects(),
          .copied_bytes = copied_bytes_,
          .credit = std::min(credit_, acknowledged_ + shape_.slots) - next_};
}

// ---- Sending ------------------------------------------------------------------------------------

bool RdmaSendLane::PostAnnouncements() {
  if (has_slots_) return false;
  bool moved = false;
  PeerPair& pair = *link_.pair();
  for (; announced_ < next_ && pair.Claim(link_.number(), 1); ++announced_) {
    const Entry& entry = At(announced_);
    wire::PairMessage message{};
    message.kind = wire::PairMessageKind::kAnnounce;
    message.lane = link_.peer_lane();
    message.key = NeedsPlace(entry) ? 1 : 0;
    message.number = announced_;
    message.bytes = entry.payload.bytes;
    message.tag = entry.tag;
    pair.Send(link_.number(), message);
    CountMoved(sizeof(message));
    moved = true;
  }
  return moved;
}

bool RdmaSendLane::PostSlices() {
  bool moved = false;
  const uint64_t end = moved_bytes() + kMaxBytesPerPoll;
  while (link_.ready() && sent_ < (has_slots_ ? next_ : announced_) && moved_bytes() < end) {
    if (!PostSlice()) break;
    moved = true;
  }
  return moved;
}

bool RdmaSendLane::PostSlice() {
  const Entry& entry = At(sent_);
  const std::optional<Place> place = FindPlace(entry);
  no_place_ = !place.has_value();
  // The tag travels first, so that the receiver can name the slice that waits.
  if (!PostTag() || !place.has_value()) return false;
  PeerPair& pair = *link_.pair();
  if (!pair.Claim(link_.number(), 1)) return false;
  gate_blocked_ = gate_ != nullptr && gate_->Allowance() == 0;
  if (gate_blocked_) return false;

  const bool discarded = NeedsPlace(entry) && place->address == 0;
  WorkRequest request;
  std::shared_ptr<RegisteredMemory> source;
  if (!discarded && entry.payload.bytes > 0) {
    if (!SetSource(entry, &request, &source)) return false;
    request.remote_address = place->address;
    request.remote_key = place->key;
  }
  pair.Write(link_.number(), request,
             {.lane = link_.peer_lane(),
              .placed = place->given,
              .slice = static_cast<uint8_t>(sent_ % wire::kSliceModulus)},
             /*cookie=*/sent_, std::move(source));
  CountMoved(request.bytes);
  if (gate_ != nullptr && request.bytes > 0) gate_->Sent(request.bytes);
  first_ = tag_posted_ = false;
  ever_sent_ = std::max(ever_sent_, ++sent_);
  return true;
}

// Posts the tag of slice sent_ if the receiver needs it. Returns false if it must wait.
bool RdmaSendLane::PostTag() {
  const Entry& entry = At(sent_);
  if (!has_slots_ || tag_posted_ || (!first_ && !entry.tagged)) return true;
  PeerPair& pair = *link_.pair();
  if (!pair.Claim(link_.number(), 1)) return false;
  wire::PairMessage message{};
  message.kind = wire::PairMessageKind::kTag;
  message.lane = link_.peer_lane();
  message.number = sent_;
  message.tag = entry.tag;
  pair.Send(link_.number(), message);
  CountMoved(sizeof(message));
  tag_posted_ = true;
  return true;
}

std::optional<RdmaSendLane::Place> RdmaSendLane::FindPlace(const Entry& entry) const {
  const uint64_t bytes = entry.payload.bytes;
  if (bytes == 0) return Place{};
  const Place& given = places_[sent_ % shape_.slots];
  const bool is_given = given.given && given.slice == sent_;
  if (!has_slots_) return is_given ? std::optional<Place>(given) : std::nullopt;
  if (is_given && given.address != 0 && given.bytes == bytes &&
      given.tag_check == wire::CheckOf(entry.tag)) {
    return given;
  }
  if (!is_given && waits_for_places_ && bytes > unplaced_bytes_) return std::nullopt;
  if (!slots_.has_value()) return std::nullopt;
  Place slot = *slots_;
  slot.address += (sent_ % shape_.slots) * shape_.slot_bytes;
  return slot;
}

bool RdmaSendLane::SetSource(const Entry& entry, WorkRequest* request,
                             std::shared_ptr<RegisteredMemory>* kept) {
  request->bytes = entry.payload.bytes;
  request->inlined = entry.is_copied;
  if (entry.is_copied) {
    request->local = entry.copy.data();
    return true;
  }
  request->local = reinterpret_cast<const std::byte*>(entry.payload.nic_address());  // NOLINT
  *kept = UseMemory(*entry.payload.region);
  if ((*kept)->pending()) return false;
  if (!(*kept)->ready()) {
    const std::shared_ptr<BounceBuffer> bounce =
        UseBounce(*entry.payload.region, **kept, shape_.slot_bytes);
    if (bounce == nullptr) return false;
    std::memcpy(bounce->address(), entry.payload.address(), entry.payload.bytes);
    copied_bytes_ += entry.payload.bytes;
    bounce->used = true;
    bounced_ = sent_;
    request->local = bounce->address();
    *kept = UseMemory(*bounce);
  }
  request->local_key = (*kept)->verbs().local_key();
  return true;
}

// ---- The exchange -------------------------------------------------------------------------------

// Nothing of the last connection may take effect later: the receiver counts its slices now.
std::optional<wire::LaneHello> RdmaSendLane::MakeHello() {
  PeerPair* const pair = link_.pair();
  const bool failed = pair != nullptr && !pair->status().ok();
  if (pair != nullptr && !failed && acknowledged_ < sent_) return std::nullopt;
  // Slices were sent over the first one that has failed only.
  if (failed && !failure_.has_value()) failure_ = wire::FailureProof(pair->name());
  wire::LaneHello hello{};
  hello.slots = shape_.slots;
  hello.slot_bytes = shape_.slot_bytes;
  hello.source_port = queues().source_port;
  hello.pair_failed = failure_.has_value() ? 1 : 0;
  hello.failure = failure_.value_or(wire::PairProof{});
  hello.number = acknowledged_;
  return hello;
}

void RdmaSendLane::OnHello(const wire::LaneHello& hello) {
  const SliceNumber delivered = hello.number;
  if (hello.slots != shape_.slots || hello.slot_bytes != shape_.slot_bytes) {
    return Fail("the peer has ", hello.slots, " slots of ", hello.slot_bytes, " bytes, this end ",
                shape_.slots, " of ", shape_.slot_bytes);
  }
  if (delivered < acknowledged_ || delivered > ever_sent_) {
    return Fail("invalid acknowledgement: ", delivered, " slices delivered; expected ",
                acknowledged_, " to ", ever_sent_);
  }
  if (hello.credit < credit_ || hello.credit > delivered + shape_.slots) {
    return Fail("invalid credit: ", hello.credit, " slices; expected ", credit_, " to ",
                delivered + shape_.slots);
  }
  Acknowledge(delivered);
  failure_.reset();
  credit_ = hello.credit;
  sent_ = announced_ = acknowledged_;
  first_ = true;
  tag_posted_ = false;
  has_slots_ = hello.has_slots != 0;
  unplaced_bytes_ = hello.unplaced_bytes;
  slots_.reset();
  std::ranges::fill(places_, Place{});
}

// ---- The queue pair -----------------------------------------------------------------------------

void RdmaSendLane::OnSent(uint64_t cookie) {
  OnEvent();
  Acknowledge(std::max(acknowledged_, std::min(cookie + 1, sent_)));
}

void RdmaSendLane::OnMessage(const wire::PairMessage& message) {
  OnEvent();
  if (link().failed()) return;
  if (message.kind == wire::PairMessageKind::kCredit) {
    return OnCredit(std::bit_cast<wire::CreditMessage>(message));
  }
  if (message.kind == wire::PairMessageKind::kSlots) {
    slots_ = Place{.address = message.address, .key = message.key};
    return;
  }
  Fail("unexpected message of kind ", static_cast<int>(message.kind));
}

void RdmaSendLane::OnWritten(const wire::ImmediateFields&, uint32_t) {
  OnEvent();
  if (!link().failed()) Fail("a slice arrived at its lane's sender");
}

void RdmaSendLane::OnCredit(const wire::CreditMessage& message) {
  const SliceNumber delivered = message.delivered;
  const SliceNumber credit = delivered + message.credit;
  if (delivered > sent_) {
    return Fail("invalid acknowledgement: ", delivered, " slices delivered, ", sent_, " sent");
  }
  if (credit < credit_ || message.credit > shape_.slots) {
    return Fail("invalid credit: ", credit, " slices; expected ", credit_, " to ",
                delivered + shape_.slots);
  }
  const SliceNumber first = delivered + message.first;
  const SliceNumber end = first + message.places;
  if (message.places > message.addresses.size() || end > credit ||
      (!has_slots_ && message.places > 0 && end > announced_)) {
    return Fail("invalid places: of slices ", first, " to ", end);
  }
  for (SliceNumber n = std::max(first, sent_); n < end; ++n) {
    places_[n % shape_.slots] = {.slice = n,
                                 .given = true,
                                 .address = message.addresses[n - first],
                                 .key = message.key,
                                 .tag_check = message.tag_check,
                                 .bytes = message.bytes};
  }
  Acknowledge(std::max(acknowledged_, delivered));
  credit_ = credit;
}

void RdmaSendLane::Acknowledge(SliceNumber end) {
  for (; acknowledged_ < end; ++acknowledged_) {
    acknowledged_bytes_ += At(acknowledged_).payload.bytes;
  }
  if (bounced_.has_value() && *bounced_ < acknowledged_) {
    bounced_.reset();
    ReleaseBounce();
  }
  FreeSources();
}

void RdmaSendLane::FreeSources() {
  source_free_ = std::max(source_free_, acknowledged_);
  while (source_free_ < next_ && At(source_free_).is_copied) ++source_free_;
}

}  // namespace mccs
