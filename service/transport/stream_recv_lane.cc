#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/stream_lane.h"

namespace mccs {
namespace {

// Reads per Poll; limited so that other lanes get their turns.
constexpr int kMaxReadsPerPoll = 4;
constexpr size_t kInboxBytes = 2 * sizeof(wire::TaggedSliceHeader) + kShortSliceBytes;
// Discarded payload is read in parts of this size.
constexpr size_t kDiscardBytes = 64u << 10;

// REQUIRES: `header` points to sizeof(wire::SliceHeader) bytes.
bool IsTagged(const std::byte* header) {
  uint32_t magic;
  std::memcpy(&magic, header, sizeof(magic));
  return magic == wire::kTaggedSliceMagic;
}

}  // namespace

StreamRecvLane::StreamRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                               const RegionSpan& slots, StreamShared& shared)
    : shape_(shape),
      slots_(slots),
      shared_(shared),
      entries_(shape.slots),
      inbox_(kInboxBytes),
      sent_credit_(shape.slots) {
  MCCS_CHECK(shape.slots >= 2);
  MCCS_CHECK(slots.bytes == 0 || slots.bytes >= size_t{shape.slots} * shape.slot_bytes);
  SetQueues(identity.queues);
}

// ---- Exposed memory -----------------------------------------------------------------------------

absl::StatusOr<RemoteKey> StreamRecvLane::Expose(ExposureName name, const RegionSpan& memory) {
  if (link_.failed()) return link_.status();
  MCCS_CHECK(memory.region != nullptr);
  // Streams need no registration. They insist on one, so that a user that forgets it fails here
  // too.
  if (!shared_.registrations.Find(*memory.region, queues().domain).has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot expose memory on a lane: its region is not registered with NIC ",
                     queues().domain.nic.address));
  }
  const RemoteKey key(shared_.last_key + 1);
  MCCS_RETURN_IF_ERROR(exposed_.Expose(key, name, memory));
  ++shared_.last_key;
  return key;
}

void StreamRecvLane::Withdraw(RemoteKey key) {
  exposed_.Withdraw(key);
  const bool arriving =
      link_.get() != nullptr && header_here_ && At(delivered_).header.key == key.value();
  if (arriving) link_.FailByWithdrawal(delivered_);
}

// ---- Slices, for the owner ----------------------------------------------------------------------

bool StreamRecvLane::Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) {
  if (!InWindow(n) || n < delivered_) return false;
  const bool arriving = n == delivered_ && header_here_;
  Entry& entry = At(n);
  if (arriving && (!NothingPlaced() || entry.header.key != 0)) return false;
  entry.expected = memory;
  entry.expected_tag = tag;
  entry.expects = true;
  if (arriving) ChooseLanding();
  return true;
}

Landing StreamRecvLane::Landed(SliceNumber n) const {
  if (n >= delivered_) return Landing::kNotYet;
  MCCS_CHECK(InWindow(n) && !At(n).released);
  return At(n).landing;
}

const SliceTag& StreamRecvLane::Tag(SliceNumber n) const {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  return At(n).tag;
}

uint32_t StreamRecvLane::Bytes(SliceNumber n) const {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  return At(n).header.bytes;
}

std::optional<SliceTag> StreamRecvLane::OldestTag() const {
  if (released_ == delivered_ && !waits_for_memory_) return std::nullopt;
  return At(released_).tag;
}

std::vector<RegionSpan> StreamRecvLane::UnusedSlots() const {
  std::vector<RegionSpan> unused;
  if (!has_slots()) return unused;
  const SliceNumber first = delivered_ + (header_here_ ? 1 : 0);
  for (SliceNumber n = first; n < released_ + shape_.slots; ++n) {
    unused.push_back(slots_.Part((n % shape_.slots) * shape_.slot_bytes, shape_.slot_bytes));
  }
  return unused;
}

void StreamRecvLane::Release(SliceNumber n) {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  At(n).released = true;
  while (released_ < delivered_ && At(released_).released) {
    Entry& entry = At(released_++);
    entry.released = false;
    entry.expects = false;
    entry.landing = Landing::kNotYet;
  }
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool StreamRecvLane::Poll() {
  if (link_.get() == nullptr) return false;
  bool moved = false;
  if (waits_for_memory_ && sink_ != nullptr) ChooseLanding();  // the sink came later
  // Bytes read ahead of a slice that waited for memory.
  if (header_here_ && inbox_begin_ != inbox_end_) {
    while (ParseInbox()) moved = true;
  }
  const uint64_t end = moved_bytes() + kMaxBytesPerPoll;
  for (int i = 0; i < kMaxReadsPerPoll && moved_bytes() < end && ReadSome(); ++i) moved = true;
  if (link_.get() != nullptr && FlushFrames(moved)) moved = true;
  return moved || link_.get() == nullptr;
}

void StreamRecvLane::Attach(std::unique_ptr<Connection> connection) {
  if (!link_.Attach(std::move(connection))) return;
  // An incomplete slice is sent again, including its header.
  header_here_ = waits_for_memory_ = false;
  inbox_begin_ = inbox_end_ = 0;
  exposed_.RepeatAll();
  StartAck(wire::kResumeMagic);
}

LaneCounters StreamRecvLane::counters() const {
  return {.slices = delivered_,
          .payload_bytes = landed_bytes_,
          .reconnects = link_.reconnects(),
          .credit = shape_.slots - (delivered_ - released_)};
}

// Makes one read call and handles its bytes; returns false if nothing arrived.
bool StreamRecvLane::ReadSome() {
  if (link_.get() == nullptr || waits_for_memory_ || !link_.get()->readable()) return false;
  GatherTargets();
  absl::StatusOr<size_t> got = link_.get()->Read(gather_);
  if (!got.ok()) {
    link_.Stall(got.status());
    return false;
  }
  if (*got == 0) return false;
  CountMoved(*got);
  Consume(*got);
  while (ParseInbox()) {
  }
  return true;
}

// Gathers the rest of the arriving slice, followed by the inbox: for a header, and after a short
// slice for more short slices. Only the inbox if a header is next.
void StreamRecvLane::GatherTargets() {
  gather_.clear();
  size_t ahead = inbox_.size() - inbox_end_;
  if (header_here_) {
    gather_.push_back(Target());
    if (gather_.back().iov_len < payload_left_) return;
    if (At(delivered_).header.bytes > kShortSliceBytes) {
      // No payload, because its place is not known yet. The slices for a sink have their own tags.
      ahead = wire::HeaderBytes(/*tagged=*/sink_ != nullptr);
    }
  }
  gather_.push_back({.iov_base = inbox_.data() + inbox_end_, .iov_len = ahead});
}

void StreamRecvLane::Consume(size_t got) {
  if (header_here_) {
    const size_t payload = std::min(got, payload_left_);
    got -= payload;
    TakePayload(payload);
  }
  inbox_end_ += got;
}

// Takes one header, or one slice's payload, out of the inbox; returns false if incomplete.
bool StreamRecvLane::ParseInbox() {
  const size_t here = inbox_end_ - inbox_begin_;
  if (!header_here_) {
    const std::byte* const header = inbox_.data() + inbox_begin_;
    if (here >= wire::HeaderBytes(false) && here >= wire::HeaderBytes(IsTagged(header))) {
      return TakeHeader();
    }
    if (inbox_begin_ > 0) {
      std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, here);
      inbox_begin_ = 0;
      inbox_end_ = here;
    }
    return false;
  }
  if (here == 0 || waits_for_memory_) return false;
  const iovec target = Target();
  const size_t take = std::min(here, target.iov_len);
  std::memcpy(target.iov_base, inbox_.data() + inbox_begin_, take);
  inbox_begin_ += take;
  TakePayload(take);
  if (inbox_begin_ == inbox_end_) inbox_begin_ = inbox_end_ = 0;
  return true;
}

// Returns false if the lane has failed.
bool StreamRecvLane::TakeHeader() {
  wire::TaggedSliceHeader wire{};
  const bool tagged = IsTagged(inbox_.data() + inbox_begin_);
  std::memcpy(&wire, inbox_.data() + inbox_begin_, wire::HeaderBytes(tagged));
  if (!CheckHeader(wire.header)) return false;
  inbox_begin_ += wire::HeaderBytes(tagged);
  if (inbox_begin_ == inbox_end_) inbox_begin_ = inbox_end_ = 0;
  Entry& entry = At(delivered_);
  entry.header = wire.header;
  entry.tag = tagged ? wire.tag : last_tag_;
  header_here_ = true;
  payload_left_ = wire.header.bytes;
  ChooseLanding();
  if (payload_left_ == 0) Land();
  return true;
}

bool StreamRecvLane::CheckHeader(const wire::SliceHeader& header) {
  if (header.magic != wire::kSliceMagic && header.magic != wire::kTaggedSliceMagic) {
    link_.Fail("invalid slice header: it begins with 0x", absl::Hex(header.magic));
  } else if (header.number != delivered_) {
    link_.Fail("slice ", header.number, " arrived, expected slice ", delivered_);
  } else if (header.number >= sent_credit_) {
    link_.Fail("slice ", header.number, " arrived with credit for only ", sent_credit_, " slices");
  } else if (header.bytes > shape_.slot_bytes) {
    link_.Fail("slice ", header.number, " has ", header.bytes, " bytes, more than a slot of ",
               shape_.slot_bytes);
  } else if (header.number == 0 && header.magic != wire::kTaggedSliceMagic) {
    link_.Fail("slice 0 has no tag");
  } else if (header.key == 0 && header.offset != 0) {
    link_.Fail("slice ", header.number, " has an offset without a key");
  } else if (header.key != 0) {
    const absl::Status found = exposed_.Find(TargetOf(header), header.bytes).status();
    if (!found.ok()) link_.Fail("slice ", header.number, ": ", found.message());
  }
  return !link_.failed();
}

// REQUIRES: the arriving slice's header is complete and none of its payload has been placed.
void StreamRecvLane::ChooseLanding() {
  Entry& entry = At(delivered_);
  const uint32_t bytes = entry.header.bytes;
  waits_for_memory_ = false;
  if (entry.header.key != 0) {
    const absl::StatusOr<RegionSpan> memory = exposed_.Find(TargetOf(entry.header), bytes);
    MCCS_CHECK(memory.ok());  // CheckHeader
    return PlaceAt(*memory, Landing::kWritten);
  }
  if (!entry.expects && sink_ != nullptr) {
    if (const auto memory = sink_->FindDestination(entry.tag, bytes); memory.has_value()) {
      MCCS_CHECK(memory->bytes == bytes);
      return PlaceAt(*memory, Landing::kDirect);
    }
  }
  if (entry.expects && entry.expected_tag == entry.tag && entry.expected.bytes == bytes) {
    PlaceAt(entry.expected, Landing::kDirect);
  } else if (bytes == 0) {
    PlaceAt({}, Landing::kInSlot);
  } else if (has_slots()) {
    PlaceAt(slots_.Part((delivered_ % shape_.slots) * shape_.slot_bytes, bytes), Landing::kInSlot);
  } else if (entry.expects || sink_ != nullptr) {
    PlaceAt({}, Landing::kDiscarded);
    shared_.discarded.resize(kDiscardBytes);
  } else {
    waits_for_memory_ = true;
  }
}

void StreamRecvLane::PlaceAt(const RegionSpan& memory, Landing landing) {
  At(delivered_).landing = landing;
  memory_ = memory.address();
}

iovec StreamRecvLane::Target() {
  const Entry& entry = At(delivered_);
  if (entry.landing == Landing::kDiscarded) {
    return {.iov_base = shared_.discarded.data(),
            .iov_len = std::min(payload_left_, kDiscardBytes)};
  }
  return {.iov_base = memory_ + (entry.header.bytes - payload_left_), .iov_len = payload_left_};
}

// Accounts for `bytes` of the arriving slice.
void StreamRecvLane::TakePayload(size_t bytes) {
  payload_left_ -= bytes;
  if (payload_left_ == 0) Land();
}

void StreamRecvLane::Land() {
  landed_bytes_ += At(delivered_).header.bytes;
  last_tag_ = At(delivered_).tag;
  // The sender has copied short slices.
  if (At(delivered_).header.bytes > kShortSliceBytes) acknowledge_soon_ = true;
  header_here_ = false;
  ++delivered_;
}

// Sends changes of exposed memory at once. Sends credit at once if the sender may be short of it. A
// sender with more than half a window left does not wait for credit. Acknowledges as soon as no
// more bytes arrive, so that the owner has handled (and perhaps released) what landed, and one
// frame covers it all. Short slices wait for another reason to acknowledge: a frame costs a system
// call at both ends, and their sender has copied them.
bool StreamRecvLane::FlushFrames(bool moved) {
  if (frame_left_ > 0) return WriteFrame();
  if (exposed_.has_changes()) {
    StartExposure(*exposed_.TakeChange());
    return WriteFrame();
  }
  const SliceNumber gain = released_ + shape_.slots - sent_credit_;
  const SliceNumber left = sent_credit_ - delivered_;
  const bool idle = !moved;
  const bool short_of_credit =
      gain > 0 && (left <= 1 || (left <= shape_.slots / 2 && (idle || gain >= shape_.slots / 4)));
  const bool unacknowledged = idle && acknowledge_soon_;
  if (!short_of_credit && !unacknowledged) return false;
  StartAck(wire::kAckMagic);
  return WriteFrame();
}

void StreamRecvLane::StartAck(uint32_t magic) {
  sent_delivered_ = delivered_;
  sent_credit_ = released_ + shape_.slots;
  acknowledge_soon_ = false;
  frame_ = std::bit_cast<Frame>(wire::AckFrame{.magic = magic,
                                               .slots = shape_.slots,
                                               .slot_bytes = shape_.slot_bytes,
                                               .reserved = 0,
                                               .delivered = sent_delivered_,
                                               .credit = sent_credit_});
  frame_left_ = sizeof(frame_);
}

void StreamRecvLane::StartExposure(const ExposedMemory::Change& change) {
  frame_ = std::bit_cast<Frame>(
      wire::ExposureFrame{.magic = change.withdrawn ? wire::kWithdrawMagic : wire::kExposeMagic,
                          .reserved = 0,
                          .key = change.key.value(),
                          .name = change.name.value(),
                          .bytes = change.bytes});
  frame_left_ = sizeof(frame_);
}

bool StreamRecvLane::WriteFrame() {
  if (!link_.get()->writable()) return false;
  const iovec rest{.iov_base = frame_.data() + (frame_.size() - frame_left_),
                   .iov_len = frame_left_};
  absl::StatusOr<size_t> written = link_.get()->Write({&rest, 1});
  if (!written.ok()) {
    link_.Stall(written.status());
    return false;
  }
  frame_left_ -= *written;
  if (frame_left_ == 0) link_.SetReady();
  return *written > 0;
}

}  // namespace mccs
