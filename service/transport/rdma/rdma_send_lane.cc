#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/rdma_lane.h"

namespace mccs {

RdmaSendLane::RdmaSendLane(const LaneIdentity& identity, const LaneShape& shape, RdmaShared& shared)
    : shape_(shape),
      shared_(shared),
      inline_bytes_([&] {
        const NicAttributes* const nic = shared.pairs.Attributes(identity.queues.domain.nic);
        return nic == nullptr ? 0 : nic->inline_bytes;
      }()),
      entries_(shape.slots),
      credit_(shape.slots),
      link_(RdmaLaneLink::Role::kSender, shared.pairs, *this) {
  MCCS_CHECK(shape.slots >= 2);
  SetQueues(identity.queues);
}

absl::StatusOr<std::optional<SliceNumber>> RdmaSendLane::PostTo(const RemoteTarget& target,
                                                                const RegionSpan& payload,
                                                                const SliceTag& tag) {
  if (link_.link().failed()) return status();
  if (payload.bytes > shape_.slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice of ", payload.bytes, " bytes: expected at most ", shape_.slot_bytes));
  }
  if (target.key != RemoteKey()) MCCS_RETURN_IF_ERROR(peer_memory_.Check(target, payload.bytes));
  if (!has_room()) return std::nullopt;

  const bool is_copied = payload.bytes <= inline_bytes_;
  if (!is_copied && shared_.Find(*payload.region, queues().domain) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot send a slice: its region is not registered with NIC ",
                     queues().domain.nic.address));
  }
  Entry& entry = At(next_);
  entry.tag = tag;
  entry.tagged = next_ == 0 || tag != last_tag_;
  entry.target = target;
  entry.payload = payload;
  entry.is_copied = is_copied;
  if (is_copied && payload.bytes > 0) {
    if (entry.copy.size() < payload.bytes) entry.copy.resize(payload.bytes);
    std::memcpy(entry.copy.data(), payload.address(), payload.bytes);
  }
  last_tag_ = tag;
  const SliceNumber number = next_++;
  FreeSources();
  return number;
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool RdmaSendLane::Poll() {
  gate_blocked_ = false;
  bool moved = std::exchange(event_, false);
  moved |= link_.Poll();
  if (link_.ready()) {
    moved |= PostAnnouncements();
    moved |= PostSlices();
    if (link_.pair() != nullptr) moved |= link_.pair()->Flush();
  }
  if (gate_ != nullptr) ReportToGate();
  return moved;
}

void RdmaSendLane::Attach(std::unique_ptr<Connection> connection) {
  peer_memory_.Clear();
  places_.clear();
  awaits_hello_ = true;
  domain_ = queues().domain;
  link_.Attach(std::move(connection), queues());
}

void RdmaSendLane::ReportToGate() {
  const bool up = link_.ready();
  gate_->OnTurnEnd({.held = gate_blocked_,
                    .unsent = up && sent_ != next_,
                    .in_flight = up && sent_ > source_free_});
}

LaneWait RdmaSendLane::waits_for() const {
  if (sent_ != next_) return gate_blocked_ ? LaneWait::kRate : LaneWait::kConnection;
  return has_room() ? LaneWait::kNothing : LaneWait::kCredit;
}

LaneCounters RdmaSendLane::counters() const {
  return {.slices = acknowledged_,
          .payload_bytes = acknowledged_bytes_,
          .reconnects = link_.link().reconnects(),
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
    message.key = NeedsGrant(entry) ? 1 : 0;
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
  Entry& entry = At(sent_);
  const std::optional<Place> place = FindPlace(entry);
  if (!place.has_value()) return false;
  PeerPair& pair = *link_.pair();
  const bool tagged = has_slots_ && (first_ || entry.tagged);
  if (!pair.Claim(link_.number(), tagged ? 2 : 1)) return false;
  gate_blocked_ = gate_ != nullptr && gate_->Allowance() == 0;
  if (gate_blocked_) return false;

  const bool discarded = NeedsGrant(entry) && grants_.front().discard;
  WorkRequest request;
  request.bytes = discarded ? 0 : entry.payload.bytes;
  if (request.bytes > 0) {
    request.inlined = entry.is_copied;
    request.local = entry.is_copied ? entry.copy.data() : entry.payload.address();
    if (!entry.is_copied) {
      const MemoryRegion* const source = shared_.Find(*entry.payload.region, domain_);
      if (source == nullptr) {
        link_.link().Stall(absl::FailedPreconditionError(
            absl::StrCat("slice ", sent_, " is not registered with NIC ", domain_.nic.address)));
        return false;
      }
      request.local_key = source->local_key();
    }
    request.remote_address = place->address;
    request.remote_key = place->key;
  }
  if (tagged) {
    wire::PairMessage message{};
    message.kind = wire::PairMessageKind::kTag;
    message.lane = link_.peer_lane();
    message.number = sent_;
    message.tag = entry.tag;
    pair.Send(link_.number(), message);
    CountMoved(sizeof(message));
  }
  pair.Write(link_.number(), request,
             {.lane = link_.peer_lane(),
              .written = entry.target.key != RemoteKey(),
              .slice = static_cast<uint8_t>(sent_ % wire::kSliceModulus)},
             /*cookie=*/sent_);
  if (NeedsGrant(entry)) grants_.pop_front();
  CountMoved(request.bytes);
  if (gate_ != nullptr && request.bytes > 0) gate_->Sent(request.bytes);
  first_ = false;
  ever_sent_ = std::max(ever_sent_, ++sent_);
  return true;
}

std::optional<RdmaSendLane::Place> RdmaSendLane::FindPlace(const Entry& entry) {
  if (entry.target.key != RemoteKey()) {
    const auto known =
        std::ranges::find(places_, entry.target.key, &std::pair<RemoteKey, Place>::first);
    if (known != places_.end()) {
      return Place{.address = known->second.address + entry.target.offset,
                   .key = known->second.key};
    }
    // The receiver has repeated what it exposes. It withdrew this.
    if (slots_.has_value()) {
      link_.SendFault(sent_, entry.target.key);
      OnEvent();  // to write it
    }
    return std::nullopt;
  }
  if (entry.payload.bytes == 0) return Place{};
  if (!has_slots_) {
    return grants_.empty() ? std::nullopt : std::optional<Place>(grants_.front().place);
  }
  if (!slots_.has_value()) return std::nullopt;
  return Place{.address = slots_->address + (sent_ % shape_.slots) * shape_.slot_bytes,
               .key = slots_->key};
}

// ---- The exchange -------------------------------------------------------------------------------

// Nothing of the last connection may take effect later: the receiver counts its slices now.
std::optional<wire::LaneHello> RdmaSendLane::MakeHello() {
  PeerPair* const pair = link_.pair();
  const bool failed = pair != nullptr && !pair->status().ok();
  if (pair != nullptr && !failed && acknowledged_ < sent_) return std::nullopt;
  pair_failed_ |= failed;
  wire::LaneHello hello{};
  hello.slots = shape_.slots;
  hello.slot_bytes = shape_.slot_bytes;
  hello.pair_failed = pair_failed_ ? 1 : 0;
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
  awaits_hello_ = pair_failed_ = false;
  credit_ = hello.credit;
  sent_ = announced_ = acknowledged_;
  first_ = true;
  has_slots_ = hello.has_slots != 0;
  slots_.reset();
  grants_.clear();
}

void RdmaSendLane::OnFault(const wire::WriteFault&) { Fail("unexpected fault"); }

// ---- The queue pair -----------------------------------------------------------------------------

void RdmaSendLane::OnSent(uint64_t cookie) {
  OnEvent();
  Acknowledge(std::max(acknowledged_, std::min(cookie + 1, sent_)));
}

void RdmaSendLane::OnWriteFault(uint64_t cookie) {
  OnEvent();
  if (!link_.ready() || cookie < acknowledged_ || cookie >= sent_) return;
  link_.SendFault(cookie, At(cookie).target.key);
}

void RdmaSendLane::OnMessage(const wire::PairMessage& message) {
  OnEvent();
  if (link_.link().failed()) return;
  // Of the last connection. The receiver repeats what it exposes.
  const bool exposes = message.kind == wire::PairMessageKind::kExpose ||
                       message.kind == wire::PairMessageKind::kWithdraw;
  if (exposes && awaits_hello_) return;
  const Place place{.address = message.address, .key = message.key};
  switch (message.kind) {
    case wire::PairMessageKind::kCredit:
      return OnCredit(message.number, message.bytes);
    case wire::PairMessageKind::kSlots:
      slots_ = place;
      return;
    case wire::PairMessageKind::kGrant:
    case wire::PairMessageKind::kDiscard:
      if (grants_.size() >= shape_.slots) return Fail("more grants than slices");
      grants_.push_back(
          {.discard = message.kind == wire::PairMessageKind::kDiscard, .place = place});
      return;
    case wire::PairMessageKind::kExpose:
      return OnExposed(message);
    case wire::PairMessageKind::kWithdraw: {
      const RemoteKey key(message.number);
      const absl::Status withdrawn = peer_memory_.OnWithdrawn(key);
      if (!withdrawn.ok()) return Fail(withdrawn.message());
      std::erase_if(places_, [&](const auto& known) { return known.first == key; });
      return;
    }
    case wire::PairMessageKind::kTag:
    case wire::PairMessageKind::kAnnounce:
    case wire::PairMessageKind::kReturn:
      break;
  }
  Fail("unexpected message of kind ", static_cast<int>(message.kind));
}

void RdmaSendLane::OnWritten(const wire::ImmediateFields&, uint32_t) {
  OnEvent();
  if (!link_.link().failed()) Fail("a slice arrived at its lane's sender");
}

void RdmaSendLane::OnExposed(const wire::PairMessage& message) {
  uint64_t name;
  std::memcpy(&name, message.tag.data(), sizeof(name));
  const RemoteKey key(message.number);
  const absl::Status exposed =
      peer_memory_.OnExposed(ExposureName(name), {.key = key, .bytes = message.bytes});
  if (!exposed.ok()) return Fail(exposed.message());
  places_.emplace_back(key, Place{.address = message.address, .key = message.key});
}

void RdmaSendLane::OnCredit(SliceNumber delivered, SliceNumber credit) {
  if (delivered > sent_) {
    return Fail("invalid acknowledgement: ", delivered, " slices delivered, ", sent_, " sent");
  }
  if (credit < credit_ || credit > delivered + shape_.slots) {
    return Fail("invalid credit: ", credit, " slices; expected ", credit_, " to ",
                delivered + shape_.slots);
  }
  Acknowledge(std::max(acknowledged_, delivered));
  credit_ = credit;
}

void RdmaSendLane::Acknowledge(SliceNumber end) {
  for (; acknowledged_ < end; ++acknowledged_) {
    acknowledged_bytes_ += At(acknowledged_).payload.bytes;
  }
  FreeSources();
}

void RdmaSendLane::FreeSources() {
  source_free_ = std::max(source_free_, acknowledged_);
  while (source_free_ < next_ && At(source_free_).is_copied) ++source_free_;
}

}  // namespace mccs
