#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/pair_proof.h"
#include "service/transport/rdma/rdma_lane.h"

namespace mccs {

RdmaRecvLane::RdmaRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                           const RegionSpan& slots, RdmaShared& shared)
    : RdmaLaneEnd(RdmaLaneLink::Role::kReceiver, shared, identity, shape, slots),
      given_(shape.slots),
      needs_place_(shape.slots),
      sent_credit_(shape.slots) {}

// ---- Slices, for the owner ----------------------------------------------------------------------

bool RdmaRecvLane::Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) {
  if (!InWindow(n) || n < (has_slots() ? delivered() : std::max(placed_, delivered())))
    return false;
  Entry& entry = At(n);
  entry.expected = memory;
  entry.expected_tag = tag;
  entry.expects = true;
  RequestPoll();
  // One that has a place already stays there.
  return n >= placed_;
}

void RdmaRecvLane::ExpectInSlot(SliceNumber n) {
  if (!InWindow(n) || n < delivered()) return;
  At(n).stays = true;
  RequestPoll();
}

std::optional<SliceTag> RdmaRecvLane::OldestTag() const {
  if (released() < delivered()) return At(released()).tag;
  if (!has_slots()) {
    return announced_ > delivered() ? std::optional<SliceTag>(At(released()).tag) : std::nullopt;
  }
  const bool waits = tag_number_.has_value() && *tag_number_ == delivered();
  return waits ? std::optional<SliceTag>(last_tag_) : std::nullopt;
}

// The NIC has the pages: they must stay.
std::vector<RegionSpan> RdmaRecvLane::UnusedSlots() const { return {}; }

// ---- Turns of the engine ------------------------------------------------------------------------

bool RdmaRecvLane::Poll() {
  bool moved = TakeEvent();
  moved |= link_.Poll();
  if (link_.ready() && link_.pair()->usable()) {
    while (link_.ready() && (SendSlots() || SendCredit())) moved = true;
    if (link_.pair() != nullptr) moved |= link_.pair()->Flush();
  }
  if (link().failed()) {  // the peer broke the protocol, or this end cannot go on
    StopWrites();
    EndAccess();
  }
  return moved;
}

bool RdmaRecvLane::SendSlots() {
  if (slots_sent_) return false;
  wire::PairMessage message{};
  message.kind = wire::PairMessageKind::kSlots;
  message.lane = link_.peer_lane();
  if (has_slots()) {
    const std::shared_ptr<RegisteredMemory> memory = UseMemory(*slots_.region);
    if (memory->pending()) return false;
    if (!memory->ready()) {
      link_.link().FailLocally(memory->status());
      return false;
    }
    if (!link_.pair()->Claim(link_.number(), 2)) return false;
    absl::StatusOr<std::shared_ptr<WindowBinding>> bound =
        link_.pair()->Bind(link_.number(), memory);
    if (!bound.ok()) link_.link().Stall(bound.status());
    if (!bound.ok() || *bound == nullptr) return false;
    slots_binding_ = *std::move(bound);
    message.address = reinterpret_cast<uintptr_t>(slots_.address());
    message.key = slots_binding_->key();
  } else if (!link_.pair()->Claim(link_.number(), 1)) {
    return false;
  }
  link_.pair()->Send(link_.number(), message);
  slots_sent_ = true;
  return true;
}

// A sender with more than half a window left does not wait for credit, nor for places.
bool RdmaRecvLane::SendCredit() {
  const uint32_t slots = shape_.slots;
  const SliceNumber gain = credit() - sent_credit_;
  const SliceNumber left = sent_credit_ - delivered();
  const bool is_short = gain > 0 && (left <= 1 || (left <= slots / 2 && gain >= slots / 4));
  placed_ = std::max(placed_, delivered());
  const bool few_places = placed_ - delivered() <= slots / 2;
  if (!slots_sent_ || (!is_short && !few_places)) return false;
  if (few_places && !is_short && !Decided().has_value()) return false;
  // For the message, and the binding of one window.
  if (!link_.pair()->Claim(link_.number(), 2)) return false;
  wire::CreditMessage message{};
  message.kind = wire::PairMessageKind::kCredit;
  message.lane = link_.peer_lane();
  message.delivered = delivered();
  message.credit = static_cast<uint16_t>(credit() - delivered());
  GivePlaces(&message);
  if (!link_.ready() || (!is_short && message.places == 0)) return false;
  sent_credit_ = credit();
  link_.pair()->Send(link_.number(), message);
  return true;
}

// ---- Places -------------------------------------------------------------------------------------

std::optional<RegionSpan> RdmaRecvLane::Decided() const {
  if (placed_ >= credit()) return std::nullopt;
  const Entry& entry = At(placed_);
  if (has_slots()) {
    if (entry.expects) return entry.expected;
    return entry.stays ? std::optional<RegionSpan>(RegionSpan{}) : std::nullopt;
  }
  if (placed_ >= announced_) return std::nullopt;
  const bool asks = entry.expects || sink() != nullptr;
  return asks || !needs_place_[placed_ % shape_.slots] ? std::optional<RegionSpan>(RegionSpan{})
                                                       : std::nullopt;
}

void RdmaRecvLane::GivePlaces(wire::CreditMessage* message) {
  const Region* region = nullptr;  // of the places so far
  for (; message->places < message->addresses.size() && link_.ready(); ++placed_) {
    std::optional<RegionSpan> memory = Decided();
    if (!memory.has_value()) return;
    const SliceNumber n = placed_;
    const Entry& entry = At(n);
    // A slice that needs no place ends a message that has some: the places are of successors.
    const bool needs = has_slots() ? entry.stays || memory->bytes > kUnplacedBytes
                                   : needs_place_[n % shape_.slots];
    if (!needs && message->places > 0) return;
    if (!needs && !has_slots()) HasMemory(n);
    if (!needs) continue;
    if (!has_slots()) memory = FindMemory(n).value_or(RegionSpan{});
    const SliceTag& tag = has_slots() ? entry.expected_tag : entry.tag;
    const uint32_t check = wire::CheckOf(tag);
    std::optional<Location> location = Location{};
    if (memory->bytes > 0) {
      // All places of a message have its key, tag and length. Those in slots have none. So only the
      // first one may bind a window.
      const bool same = memory->region == region && message->tag_check == check &&
                        message->bytes == memory->bytes;
      if (region != nullptr && !same) return;
      location = Locate(*memory);
    }
    if (!location.has_value()) return;
    if (location->address != 0) {
      const uint32_t key = location->access->key();
      if (region != nullptr && message->key != key) {
        if (location->bounce != nullptr) location->bounce->used = false;
        return;
      }
      region = memory->region;
      message->key = key;
      message->tag_check = check;
      message->bytes = static_cast<uint32_t>(memory->bytes);
    }
    if (message->places == 0) message->first = static_cast<uint16_t>(n - delivered());
    message->addresses[message->places++] = location->address;
    given_[n % shape_.slots] = {.slice = n,
                                .given = location->address != 0 || !has_slots(),
                                .memory = location->address != 0 ? *memory : RegionSpan{},
                                .bounce = location->bounce,
                                .access = location->access};
  }
}

std::optional<RdmaRecvLane::Location> RdmaRecvLane::Locate(const RegionSpan& memory) {
  const std::shared_ptr<RegisteredMemory> registered = UseMemory(*memory.region);
  if (registered->pending()) return std::nullopt;
  Location location{.address = memory.nic_address()};
  std::shared_ptr<RegisteredMemory> written = registered;
  const Region* region = memory.region;
  if (!registered->ready()) {
    if (has_slots()) return Location{};
    location.bounce = UseBounce(*region, *registered, shape_.slot_bytes);
    if (location.bounce == nullptr) return std::nullopt;
    location.address = reinterpret_cast<uintptr_t>(location.bounce->address());
    region = location.bounce.get();
    written = UseMemory(*region);
  }
  absl::StatusOr<std::shared_ptr<WindowBinding>> access = Allow(*region, written);
  if (!access.ok()) {
    if (has_slots()) return Location{};
    link_.link().Stall(access.status());
    return std::nullopt;
  }
  if (*access == nullptr) return std::nullopt;
  if (location.bounce != nullptr) location.bounce->used = true;
  location.access = *std::move(access);
  return location;
}

absl::StatusOr<std::shared_ptr<WindowBinding>> RdmaRecvLane::Allow(
    const Region& region, const std::shared_ptr<RegisteredMemory>& memory) {
  const auto known = bindings_.find(region.id());
  if (known != bindings_.end() && !known->second.binding->revoked()) {
    known->second.last_use = ++uses_;
    return known->second.binding;
  }
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<WindowBinding> bound,
                        link_.pair()->Bind(link_.number(), memory));
  if (bound == nullptr) return nullptr;
  if (bindings_.size() >= kMaxBindings) EndOneAccess();
  bindings_[region.id()] = {.binding = bound, .last_use = ++uses_};
  return bound;
}

void RdmaRecvLane::EndOneAccess() {
  auto oldest = bindings_.end();
  for (auto at = bindings_.begin(); at != bindings_.end(); ++at) {
    if (at->second.binding.use_count() > 1) continue;  // a place
    if (oldest == bindings_.end() || at->second.last_use < oldest->second.last_use) oldest = at;
  }
  if (oldest != bindings_.end()) bindings_.erase(oldest);
}

void RdmaRecvLane::StopWrites() {
  PeerPair* const pair = link_.pair();
  const bool written = std::ranges::any_of(given_, [](const Given& given) {
    return given.given && given.access != nullptr && given.access->outlives_revoke();
  });
  if (written && pair != nullptr && pair->status().ok()) {
    pair->Break(absl::UnavailableError("a lane has ended whose peer may still write to a GPU"));
  }
}

void RdmaRecvLane::EndAccess() {
  bindings_.clear();
  slots_binding_.reset();
  std::ranges::fill(given_, Given{});
}

// ---- The exchange -------------------------------------------------------------------------------

void RdmaRecvLane::OnHello(const wire::LaneHello& hello) {
  if (hello.slots != shape_.slots || hello.slot_bytes != shape_.slot_bytes) {
    return Fail("the peer has ", hello.slots, " slots of ", hello.slot_bytes, " bytes, this end ",
                shape_.slots, " of ", shape_.slot_bytes);
  }
  if (hello.number > sent_credit_) {
    return Fail("the peer counts ", hello.number, " delivered slices, with credit for only ",
                sent_credit_);
  }
  peer_failure_.reset();
  if (hello.pair_failed != 0) peer_failure_ = hello.failure;
  peer_number_ = hello.number;
}

// Slices that have arrived over the last queue pair must be counted before the next one is used.
std::optional<wire::LaneHello> RdmaRecvLane::MakeHello() {
  PeerPair* const pair = link_.pair();
  // Another pair: no slice was sent over it, or the peer is not the daemon at its other end.
  const bool has_failed = pair != nullptr && pair->status().ok() && peer_failure_.has_value() &&
                          wire::Equal(*peer_failure_, wire::FailureProof(pair->name()));
  if (has_failed) {
    pair->Break(absl::UnavailableError("the peer's end has failed"));
  }
  const bool lost = pair == nullptr || pair->settled();
  if (pair != nullptr && !pair->status().ok() && !lost) return std::nullopt;
  if (delivered() < peer_number_) {
    if (lost) {
      Fail("the peer counts ", peer_number_, " delivered slices, this end ", delivered());
    }
    return std::nullopt;
  }
  EndAccess();
  EndBounce();  // not before: a slice may have been on its way into it
  placed_ = announced_ = delivered();
  slots_sent_ = false;
  sent_credit_ = credit();
  tag_number_.reset();
  wire::LaneHello hello{};
  hello.slots = shape_.slots;
  hello.slot_bytes = shape_.slot_bytes;
  hello.has_slots = has_slots() ? 1 : 0;
  hello.number = delivered();
  hello.credit = sent_credit_;
  hello.unplaced_bytes = kUnplacedBytes;
  return hello;
}

// ---- The queue pair -----------------------------------------------------------------------------

void RdmaRecvLane::OnMessage(const wire::PairMessage& message) {
  OnEvent();
  if (link().failed()) return;
  switch (message.kind) {
    case wire::PairMessageKind::kTag:
      return OnTag(message);
    case wire::PairMessageKind::kAnnounce:
      return OnAnnounce(message);
    default:
      return Fail("unexpected message of kind ", static_cast<int>(message.kind));
  }
}

void RdmaRecvLane::OnTag(const wire::PairMessage& message) {
  if (!has_slots() || message.number != delivered()) {
    return Fail("a tag for slice ", message.number, " arrived, expected slice ", delivered());
  }
  last_tag_ = message.tag;
  tag_number_ = message.number;
}

void RdmaRecvLane::OnAnnounce(const wire::PairMessage& message) {
  if (has_slots() || message.number != announced_) {
    return Fail("slice ", message.number, " was announced, expected slice ", announced_);
  }
  if (announced_ >= sent_credit_) {
    return Fail("slice ", message.number, " was announced with credit for only ", sent_credit_,
                " slices");
  }
  if (message.bytes > shape_.slot_bytes) {
    return Fail("slice ", message.number, " has ", message.bytes, " bytes, more than a slot of ",
                shape_.slot_bytes);
  }
  Entry& entry = At(announced_);
  entry.tag = message.tag;
  entry.bytes = static_cast<uint32_t>(message.bytes);
  needs_place_[announced_ % shape_.slots] = message.key != 0;
  ++announced_;
}

void RdmaRecvLane::OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) {
  OnEvent();
  if (link().failed()) return;
  const SliceNumber n = delivered();
  if (immediate.slice != n % wire::kSliceModulus) {
    return Fail("slice ", immediate.slice, " modulo ", wire::kSliceModulus,
                " arrived, expected slice ", n);
  }
  if (n >= sent_credit_) {
    return Fail("slice ", n, " arrived with credit for only ", sent_credit_, " slices");
  }
  if (bytes > shape_.slot_bytes) {
    return Fail("slice ", n, " has ", bytes, " bytes, more than a slot of ", shape_.slot_bytes);
  }
  if (has_slots() && !tag_number_.has_value()) return Fail("slice ", n, " has no tag");
  if (!has_slots() && n >= announced_) return Fail("slice ", n, " was not announced");
  Entry& entry = At(n);
  if (has_slots()) {
    entry.tag = last_tag_;
    entry.bytes = bytes;
  }
  if (immediate.placed) return OnPlaced(bytes);
  if (has_slots()) given_[n % shape_.slots] = {};
  if (!has_slots() && (bytes > 0 || entry.bytes > 0)) {
    return Fail("slice ", n, " of ", bytes, " bytes arrived without a place, ", entry.bytes,
                " announced");
  }
  entry.landing = !has_slots() && HasMemory(n) ? Landing::kDirect : Landing::kInSlot;
  Land();
  CountMoved(bytes);
}

bool RdmaRecvLane::HasMemory(SliceNumber n) {
  Given& given = given_[n % shape_.slots];
  if (given.slice != n || !given.asked) {
    given = {.slice = n,
             .given = false,
             .memory = {},
             .bounce = nullptr,
             .access = nullptr,
             .asked = true,
             .found = FindMemory(n).has_value()};
  }
  return given.found;
}

// Slice delivered() was written where this end has given it a place.
void RdmaRecvLane::OnPlaced(uint32_t bytes) {
  const SliceNumber n = delivered();
  Given& given = given_[n % shape_.slots];
  if (!given.given || given.slice != n) return Fail("slice ", n, " arrived in a place never given");
  if (given.memory.bytes != bytes) {
    return Fail("slice ", n, " has ", bytes, " bytes, its place ", given.memory.bytes);
  }
  Entry& entry = At(n);
  entry.landing = given.memory.bytes == 0 ? Landing::kDiscarded : Landing::kDirect;
  if (given.bounce != nullptr) {
    std::memcpy(given.memory.address(), given.bounce->address(), bytes);
    CountCopied(bytes);
    given.bounce->used = false;
  }
  given = {};
  Land();
  CountMoved(bytes);
}

}  // namespace mccs
