#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/rdma_lane.h"

namespace mccs {
namespace {

// Memory of a lane, for payload that the NIC cannot write where it belongs.
class BounceBuffer final : public Region {
 public:
  explicit BounceBuffer(uint32_t bytes)
      : BounceBuffer(std::make_unique<std::byte[]>(bytes), bytes) {}

 private:
  BounceBuffer(std::unique_ptr<std::byte[]> memory, uint32_t bytes)
      : Region(RegionKind::kStaging, memory.get(), bytes), memory_(std::move(memory)) {}

  const std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

RdmaRecvLane::RdmaRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                           const RegionSpan& slots, RdmaShared& shared)
    : shape_(shape),
      slots_(slots),
      shared_(shared),
      entries_(shape.slots),
      sent_credit_(shape.slots),
      link_(RdmaLaneLink::Role::kReceiver, shared.pairs, *this) {
  MCCS_CHECK(shape.slots >= 2);
  MCCS_CHECK(slots.bytes == 0 || slots.bytes >= size_t{shape.slots} * shape.slot_bytes);
  SetQueues(identity.queues);
}

// Without windows only the end of the queue pair ends the peer's access to the slots.
RdmaRecvLane::~RdmaRecvLane() {
  const NicAttributes* const nic = shared_.pairs.Attributes(domain_.nic);
  const bool accessible = slots_sent_ && has_slots() && nic != nullptr && !nic->windows;
  if (accessible && link_.pair() != nullptr) {
    link_.pair()->Break(
        absl::UnavailableError("the memory of a lane's slots is not needed any more"));
  }
  DropWindows();
  ReleaseBounce();
}

// ---- Slices, for the owner ----------------------------------------------------------------------

bool RdmaRecvLane::Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) {
  const bool decided = n < (has_slots() ? delivered_ : granted_);
  if (!InWindow(n) || decided) return false;
  Entry& entry = At(n);
  entry.expected = memory;
  entry.expected_tag = tag;
  entry.expects = true;
  RequestPoll();
  return true;
}

Landing RdmaRecvLane::Landed(SliceNumber n) const {
  if (n >= delivered_) return Landing::kNotYet;
  MCCS_CHECK(InWindow(n) && !At(n).released);
  return At(n).landing;
}

const SliceTag& RdmaRecvLane::Tag(SliceNumber n) const {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  return At(n).tag;
}

uint32_t RdmaRecvLane::Bytes(SliceNumber n) const {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  return At(n).bytes;
}

std::optional<SliceTag> RdmaRecvLane::OldestTag() const {
  const SliceNumber known = has_slots() ? delivered_ : std::max(delivered_, announced_);
  if (released_ == known) return std::nullopt;
  return At(released_).tag;
}

std::vector<RegionSpan> RdmaRecvLane::UnusedSlots() const {
  std::vector<RegionSpan> unused;
  if (!has_slots()) return unused;
  for (SliceNumber n = delivered_; n < released_ + shape_.slots; ++n) {
    unused.push_back(slots_.Part((n % shape_.slots) * shape_.slot_bytes, shape_.slot_bytes));
  }
  return unused;
}

void RdmaRecvLane::Release(SliceNumber n) {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  At(n).released = true;
  while (released_ < delivered_ && At(released_).released) {
    Entry& entry = At(released_++);
    entry.released = false;
    entry.expects = false;
    entry.landing = Landing::kNotYet;
  }
}

LaneCounters RdmaRecvLane::counters() const {
  return {.slices = delivered_,
          .payload_bytes = landed_bytes_,
          .reconnects = link_.link().reconnects(),
          .credit = shape_.slots - (delivered_ - released_)};
}

// ---- Exposed memory -----------------------------------------------------------------------------

absl::StatusOr<RemoteKey> RdmaRecvLane::Expose(ExposureName name, const RegionSpan& memory) {
  if (link_.link().failed()) return status();
  MCCS_CHECK(memory.region != nullptr);
  const NicAttributes* const nic = shared_.pairs.Attributes(queues().domain.nic);
  if (nic == nullptr || shared_.Find(*memory.region, queues().domain) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot expose memory on a lane: its region is not registered with NIC ",
                     queues().domain.nic.address));
  }
  if (!nic->windows) {
    return absl::UnimplementedError(absl::StrCat("cannot expose memory on a lane: RDMA device ",
                                                 nic->device, " has no memory windows of type 2"));
  }
  const RemoteKey key(shared_.last_key + 1);
  MCCS_RETURN_IF_ERROR(exposed_.Expose(key, name, memory));
  ++shared_.last_key;
  RequestPoll();
  return key;
}

void RdmaRecvLane::Withdraw(RemoteKey key) {
  exposed_.Withdraw(key);
  last_withdrawn_ = key;
  RequestPoll();
  const auto bound = std::ranges::find(windows_, key, &std::pair<RemoteKey, Window>::first);
  if (bound == windows_.end()) return;
  Window window = std::move(bound->second);
  windows_.erase(bound);
  Invalidate(std::move(window), key);
}

// If there is no room for a request, the destructor of the window ends the access.
void RdmaRecvLane::Invalidate(Window window, RemoteKey key) {
  PeerPair* const pair = link_.pair();
  if (pair == nullptr || !pair->HasRoomForLocal(1)) return;
  WorkRequest request;
  request.kind = WorkRequest::Kind::kInvalidate;
  request.remote_key = window.key;
  request.signaled = true;
  pair->PostLocal(link_.number(), request, /*cookie=*/key.value());
  invalidating_.emplace_back(key, std::move(window));
  pair->Flush();
}

bool RdmaRecvLane::IsAccessible(RemoteKey key) const {
  return std::ranges::any_of(invalidating_, [&](const auto& w) { return w.first == key; });
}

void RdmaRecvLane::DropWindows() {
  windows_.clear();
  invalidating_.clear();
  slots_window_ = {};
  granted_memory_.clear();
}

std::optional<RdmaRecvLane::Window> RdmaRecvLane::Bind(const RegionSpan& memory) {
  const MemoryRegion* const region = shared_.Find(*memory.region, domain_);
  if (region == nullptr) return std::nullopt;
  absl::StatusOr<std::unique_ptr<MemoryWindow>> window = link_.pair()->domain().MakeWindow();
  if (!window.ok()) {
    link_.link().Stall(window.status());
    return std::nullopt;
  }
  WorkRequest request;
  request.kind = WorkRequest::Kind::kBind;
  request.local = memory.address();
  request.bytes = memory.bytes;
  request.window = window->get();
  request.region = region;
  request.remote_key = (*window)->NextRemoteKey();
  link_.pair()->PostLocal(link_.number(), request, 0);
  return Window{.window = *std::move(window), .key = request.remote_key};
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool RdmaRecvLane::Poll() {
  bool moved = std::exchange(event_, false);
  moved |= link_.Poll();
  if (link_.ready()) {
    moved |= FlushMessages();
    if (link_.pair() != nullptr) moved |= link_.pair()->Flush();
  }
  if (link_.link().failed()) DropWindows();  // the peer broke the protocol of the exchange
  return moved;
}

void RdmaRecvLane::Attach(std::unique_ptr<Connection> connection) {
  link_.Attach(std::move(connection), queues());
}

bool RdmaRecvLane::FlushMessages() {
  bool moved = false;
  while (link_.ready() && (SendExposure() || SendSlots() || SendGrant() || SendCredit())) {
    moved = true;
  }
  return moved;
}

// For a message, and the binding of a window.
bool RdmaRecvLane::ClaimRoom() { return link_.pair()->Claim(link_.number(), 2); }

bool RdmaRecvLane::SendExposure() {
  if (!exposed_.has_changes() || !ClaimRoom()) return false;
  const ExposedMemory::Change change = *exposed_.TakeChange();
  wire::PairMessage message{};
  message.lane = link_.peer_lane();
  message.number = change.key.value();
  if (change.withdrawn) {
    message.kind = wire::PairMessageKind::kWithdraw;
  } else {
    const absl::StatusOr<RegionSpan> memory =
        exposed_.Find({.key = change.key, .offset = 0}, change.bytes);
    MCCS_CHECK(memory.ok());
    std::optional<Window> window = Bind(*memory);
    if (!window.has_value()) {
      link_.link().Stall(absl::FailedPreconditionError("exposed memory is not registered"));
      return false;
    }
    const uint64_t name = change.name.value();
    message.kind = wire::PairMessageKind::kExpose;
    message.key = window->key;
    message.bytes = change.bytes;
    message.address = reinterpret_cast<uintptr_t>(memory->address());
    std::memcpy(message.tag.data(), &name, sizeof(name));
    windows_.emplace_back(change.key, *std::move(window));
  }
  link_.pair()->Send(link_.number(), message);
  return true;
}

// Also tells that all is known that was exposed when the lane became ready.
bool RdmaRecvLane::SendSlots() {
  if (slots_sent_ || !link_.ready() || exposed_.has_changes() || !ClaimRoom()) return false;
  wire::PairMessage message{};
  message.kind = wire::PairMessageKind::kSlots;
  message.lane = link_.peer_lane();
  if (has_slots()) {
    const MemoryRegion* const region = shared_.Find(*slots_.region, domain_);
    if (region == nullptr) return false;  // the registration is in progress
    message.address = reinterpret_cast<uintptr_t>(slots_.address());
    if (shared_.pairs.Attributes(domain_.nic)->windows) {
      std::optional<Window> window = Bind(slots_);
      if (!window.has_value()) return false;
      slots_window_ = *std::move(window);
      message.key = slots_window_.key;
    } else {
      message.key = region->remote_key();
    }
  }
  link_.pair()->Send(link_.number(), message);
  slots_sent_ = true;
  return true;
}

bool RdmaRecvLane::SendGrant() {
  if (has_slots() || !link_.ready()) return false;
  while (granted_ < announced_ && !At(granted_).needs_grant) ++granted_;
  if (granted_ == announced_ || !ClaimRoom()) return false;
  std::optional<Granted> granted = ChooseGranted(At(granted_));
  if (!granted.has_value()) return false;
  wire::PairMessage message{};
  message.kind = granted->landing == Landing::kDiscarded ? wire::PairMessageKind::kDiscard
                                                         : wire::PairMessageKind::kGrant;
  message.lane = link_.peer_lane();
  message.number = granted_;
  if (granted->landing == Landing::kDirect) {
    const std::byte* const place =
        granted->bounced ? bounce_->address() : granted->memory.address();
    message.address = reinterpret_cast<uintptr_t>(place);
    message.key = granted->window.window != nullptr ? granted->window.key
                                                    : shared_.Find(*bounce_, domain_)->remote_key();
  }
  link_.pair()->Send(link_.number(), message);
  granted_memory_.push_back(*std::move(granted));
  ++granted_;
  return true;
}

std::optional<RdmaRecvLane::Granted> RdmaRecvLane::ChooseGranted(const Entry& entry) {
  // The sink is asked once.
  if (!entry.expects && (sink_ == nullptr || bounce_used_)) return std::nullopt;
  const std::optional<RegionSpan> memory = FindMemory(entry);
  if (!memory.has_value()) return Granted{};
  Granted granted{.landing = Landing::kDirect, .memory = *memory, .window = {}};
  const bool reachable = shared_.pairs.Attributes(domain_.nic)->windows &&
                         shared_.Find(*memory->region, domain_) != nullptr;
  if (reachable) {
    std::optional<Window> window = Bind(*memory);
    if (!window.has_value()) return std::nullopt;
    granted.window = *std::move(window);
    return granted;
  }
  if (!HasBounce()) return std::nullopt;
  if (shared_.pairs.Attributes(domain_.nic)->windows) {
    std::optional<Window> window = Bind(WholeOf(*bounce_).Part(0, entry.bytes));
    if (!window.has_value()) return std::nullopt;
    granted.window = *std::move(window);
  }
  bounce_used_ = granted.bounced = true;
  return granted;
}

// The buffer is free, and registered.
bool RdmaRecvLane::HasBounce() {
  if (bounce_used_) return false;
  if (bounce_ == nullptr) {
    bounce_ = std::make_shared<BounceBuffer>(shape_.slot_bytes);
    bounce_registration_ = shared_.registrations.Register(*bounce_, domain_);
  }
  return bounce_registration_->ready();
}

void RdmaRecvLane::ReleaseBounce() {
  if (bounce_registration_ != nullptr) {
    shared_.registrations.Release(std::move(bounce_registration_), std::move(bounce_));
  }
  bounce_.reset();
  bounce_used_ = false;
}

// A sender with more than half a window left does not wait for credit.
bool RdmaRecvLane::SendCredit() {
  const SliceNumber gain = released_ + shape_.slots - sent_credit_;
  const SliceNumber left = sent_credit_ - delivered_;
  const bool is_short = link_.ready() && gain > 0 &&
                        (left <= 1 || (left <= shape_.slots / 2 && gain >= shape_.slots / 4));
  if (!is_short || !ClaimRoom()) return false;
  sent_credit_ = released_ + shape_.slots;
  wire::PairMessage message{};
  message.kind = wire::PairMessageKind::kCredit;
  message.lane = link_.peer_lane();
  message.number = delivered_;
  message.bytes = sent_credit_;
  link_.pair()->Send(link_.number(), message);
  return true;
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
  peer_failed_ = hello.pair_failed != 0;
  peer_number_ = hello.number;
}

// Slices that have arrived over the last queue pair must be counted before the next one is used.
std::optional<wire::LaneHello> RdmaRecvLane::MakeHello() {
  PeerPair* const pair = link_.pair();
  if (pair != nullptr && pair->status().ok() && peer_failed_) {
    pair->Break(absl::UnavailableError("the peer's end has failed"));
  }
  const bool lost = pair == nullptr || pair->settled();
  if (pair != nullptr && !pair->status().ok() && !lost) return std::nullopt;
  if (delivered_ < peer_number_) {
    if (lost) {
      Fail("the peer counts ", peer_number_, " delivered slices, this end ", delivered_);
    }
    return std::nullopt;
  }
  DropWindows();
  ReleaseBounce();
  domain_ = queues().domain;
  exposed_.RepeatAll();
  granted_ = announced_ = delivered_;
  slots_sent_ = false;
  sent_credit_ = released_ + shape_.slots;
  wire::LaneHello hello{};
  hello.slots = shape_.slots;
  hello.slot_bytes = shape_.slot_bytes;
  hello.has_slots = has_slots() ? 1 : 0;
  hello.number = delivered_;
  hello.credit = sent_credit_;
  return hello;
}

void RdmaRecvLane::OnReady() { OnEvent(); }

// The sender's NIC says that ours did not accept a slice.
void RdmaRecvLane::OnFault(const wire::WriteFault& fault) {
  const RemoteTarget target{.key = RemoteKey(fault.key), .offset = 0};
  if (fault.key != 0 && !exposed_.Find(target, 0).ok()) {
    return Fail("slice ", fault.number, ": no memory with key ", fault.key,
                " is exposed on this lane",
                target.key == last_withdrawn_ ? "; this host withdrew it" : "");
  }
  if (!link_.ready()) return;
  link_.link().Stall(absl::UnavailableError(
      absl::StrCat("the peer reports that slice ", fault.number, " was not accepted")));
}

// ---- The queue pair -----------------------------------------------------------------------------

void RdmaRecvLane::OnSent(uint64_t cookie) {
  OnEvent();
  std::erase_if(invalidating_, [&](const auto& w) { return w.first.value() == cookie; });
}

void RdmaRecvLane::OnPairLost() {
  DropWindows();
  OnEvent();
}

void RdmaRecvLane::OnMessage(const wire::PairMessage& message) {
  OnEvent();
  if (link_.link().failed()) return;
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
  if (!has_slots() || message.number != delivered_) {
    return Fail("a tag for slice ", message.number, " arrived, expected slice ", delivered_);
  }
  last_tag_ = message.tag;
  has_tag_ = true;
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
  Entry& entry = At(announced_++);
  entry.tag = message.tag;
  entry.bytes = static_cast<uint32_t>(message.bytes);
  entry.needs_grant = message.key != 0;
}

void RdmaRecvLane::OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) {
  OnEvent();
  if (link_.link().failed()) return;
  const SliceNumber n = delivered_;
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
  if (has_slots() && !has_tag_) return Fail("slice ", n, " has no tag");
  if (!has_slots() && n >= announced_) return Fail("slice ", n, " was not announced");
  if (immediate.written && exposed_.empty() && invalidating_.empty()) {
    return Fail("slice ", n, " was written to exposed memory, but there is none");
  }
  Land(immediate.written, bytes);
}

void RdmaRecvLane::Land(bool written, uint32_t bytes) {
  Entry& entry = At(delivered_);
  if (has_slots()) {
    entry.tag = last_tag_;
    entry.bytes = bytes;
  }
  if (!has_slots() && entry.needs_grant) {
    if (granted_memory_.empty()) {
      return Fail("slice ", delivered_, " arrived without memory for it");
    }
    Granted granted = std::move(granted_memory_.front());
    granted_memory_.pop_front();
    if (granted.landing != Landing::kDiscarded && bytes != entry.bytes) {
      return Fail("slice ", delivered_, " has ", bytes, " bytes, ", entry.bytes, " announced");
    }
    entry.landing = granted.landing;
    TakeGranted(std::move(granted));
  } else if (bytes != entry.bytes) {
    return Fail("slice ", delivered_, " has ", bytes, " bytes, ", entry.bytes, " announced");
  } else if (!has_slots() && !written && bytes > 0) {
    return Fail("slice ", delivered_, " of ", bytes, " bytes was announced without need of memory");
  } else {
    entry.landing = written ? Landing::kWritten : LandInSlot(entry);
  }
  CountMoved(bytes);
  landed_bytes_ += bytes;
  ++delivered_;
  granted_ = std::max(granted_, delivered_);
}

void RdmaRecvLane::TakeGranted(Granted granted) {
  if (!granted.bounced) return;
  std::memcpy(granted.memory.address(), bounce_->address(), granted.memory.bytes);
  bounce_used_ = false;
}

std::optional<RegionSpan> RdmaRecvLane::FindMemory(const Entry& entry) const {
  std::optional<RegionSpan> memory;
  if (entry.expects) {
    if (entry.expected_tag == entry.tag && entry.expected.bytes == entry.bytes)
      memory = entry.expected;
  } else if (sink_ != nullptr) {
    memory = sink_->FindDestination(entry.tag, entry.bytes);
  }
  MCCS_CHECK(!memory.has_value() || memory->bytes == entry.bytes);
  return memory;
}

// Copies it to where the owner wants it.
Landing RdmaRecvLane::LandInSlot(const Entry& entry) {
  const std::optional<RegionSpan> memory = FindMemory(entry);
  if (!memory.has_value()) return Landing::kInSlot;
  if (entry.bytes > 0) std::memcpy(memory->address(), Slot(delivered_), entry.bytes);
  return Landing::kDirect;
}

}  // namespace mccs
