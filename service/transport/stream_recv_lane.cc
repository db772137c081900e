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
                               const RegionSpan& slots)
    : WindowedRecvLane(identity, shape, slots), inbox_(kInboxBytes), sent_credit_(shape.slots) {}

// ---- Slices, for the owner ----------------------------------------------------------------------

bool StreamRecvLane::Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) {
  if (!InWindow(n) || n < delivered() || !memory.is_mapped()) return false;
  const bool arriving = n == delivered() && header_here_;
  if (arriving && !NothingPlaced()) return false;
  Entry& entry = At(n);
  entry.expected = memory;
  entry.expected_tag = tag;
  entry.expects = true;
  if (arriving) ChooseLanding();
  return true;
}

std::optional<SliceTag> StreamRecvLane::OldestTag() const {
  if (released() == delivered() && !waits_for_memory_) return std::nullopt;
  return At(released()).tag;
}

std::vector<RegionSpan> StreamRecvLane::UnusedSlots() const {
  std::vector<RegionSpan> unused;
  if (!has_slots()) return unused;
  const SliceNumber first = delivered() + (header_here_ ? 1 : 0);
  for (SliceNumber n = first; n < credit(); ++n) unused.push_back(Slot(n));
  return unused;
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool StreamRecvLane::Poll() {
  if (link_.get() == nullptr) return false;
  bool moved = false;
  if (waits_for_memory_ && sink() != nullptr) ChooseLanding();  // the sink came later
  // Bytes read ahead of a slice that waited for memory.
  if (header_here_ && inbox_begin_ != inbox_end_) {
    while (ParseInbox()) moved = true;
  }
  const uint64_t end = moved_bytes() + kMaxBytesPerPoll;
  for (int i = 0; i < kMaxReadsPerPoll && moved_bytes() < end && ReadSome(); ++i) moved = true;
  if (link_.get() != nullptr && FlushAcks(moved)) moved = true;
  return moved || link_.get() == nullptr;
}

void StreamRecvLane::Attach(std::unique_ptr<Connection> connection) {
  if (!link_.Attach(std::move(connection))) return;
  // An incomplete slice is sent again, including its header.
  header_here_ = waits_for_memory_ = false;
  inbox_begin_ = inbox_end_ = 0;
  StartAck(wire::kResumeMagic);
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
    if (At(delivered()).bytes > kShortSliceBytes) {
      // No payload, because its place is not known yet. The slices for a sink have their own tags.
      ahead = wire::HeaderBytes(/*tagged=*/sink() != nullptr);
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
  Entry& entry = At(delivered());
  entry.bytes = wire.header.bytes;
  entry.tag = tagged ? wire.tag : last_tag_;
  header_here_ = true;
  payload_left_ = wire.header.bytes;
  ChooseLanding();
  if (payload_left_ == 0) LandSlice();
  return true;
}

bool StreamRecvLane::CheckHeader(const wire::SliceHeader& header) {
  if (header.magic != wire::kSliceMagic && header.magic != wire::kTaggedSliceMagic) {
    link_.Fail("invalid slice header: it begins with 0x", absl::Hex(header.magic));
  } else if (header.number != delivered()) {
    link_.Fail("slice ", header.number, " arrived, expected slice ", delivered());
  } else if (header.number >= sent_credit_) {
    link_.Fail("slice ", header.number, " arrived with credit for only ", sent_credit_, " slices");
  } else if (header.bytes > shape_.slot_bytes) {
    link_.Fail("slice ", header.number, " has ", header.bytes, " bytes, more than a slot of ",
               shape_.slot_bytes);
  } else if (header.number == 0 && header.magic != wire::kTaggedSliceMagic) {
    link_.Fail("slice 0 has no tag");
  }
  return !link_.failed();
}

// REQUIRES: the arriving slice's header is complete and none of its payload has been placed.
void StreamRecvLane::ChooseLanding() {
  const Entry& entry = At(delivered());
  waits_for_memory_ = false;
  const std::optional<RegionSpan> memory = FindMemory(delivered());
  if (memory.has_value()) {
    PlaceAt(*memory, Landing::kDirect);
  } else if (entry.bytes == 0) {
    PlaceAt({}, Landing::kInSlot);
  } else if (has_slots()) {
    PlaceAt(Slot(delivered()), Landing::kInSlot);
  } else if (entry.expects || sink() != nullptr) {
    PlaceAt({}, Landing::kDiscarded);
    discarded_.resize(kDiscardBytes);
  } else {
    waits_for_memory_ = true;
  }
}

void StreamRecvLane::PlaceAt(const RegionSpan& memory, Landing landing) {
  At(delivered()).landing = landing;
  MCCS_CHECK(memory.is_mapped());
  memory_ = memory.address();
}

iovec StreamRecvLane::Target() {
  const Entry& entry = At(delivered());
  if (entry.landing == Landing::kDiscarded) {
    return {.iov_base = discarded_.data(), .iov_len = std::min(payload_left_, kDiscardBytes)};
  }
  return {.iov_base = memory_ + (entry.bytes - payload_left_), .iov_len = payload_left_};
}

// Accounts for `bytes` of the arriving slice.
void StreamRecvLane::TakePayload(size_t bytes) {
  payload_left_ -= bytes;
  if (payload_left_ == 0) LandSlice();
}

void StreamRecvLane::LandSlice() {
  const Entry& entry = At(delivered());
  last_tag_ = entry.tag;
  // The sender has copied short slices.
  if (entry.bytes > kShortSliceBytes) acknowledge_soon_ = true;
  header_here_ = false;
  Land();
}

// Sends credit at once if the sender may be short of it. A sender with more than half a window left
// does not wait for credit. Acknowledges as soon as no
// more bytes arrive, so that the owner has handled (and perhaps released) what landed, and one
// frame covers it all. Short slices wait for another reason to acknowledge: a frame costs a system
// call at both ends, and their sender has copied them.
bool StreamRecvLane::FlushAcks(bool moved) {
  if (frame_left_ > 0) return WriteFrame();
  const SliceNumber gain = credit() - sent_credit_;
  const SliceNumber left = sent_credit_ - delivered();
  const bool idle = !moved;
  const bool short_of_credit =
      gain > 0 && (left <= 1 || (left <= shape_.slots / 2 && (idle || gain >= shape_.slots / 4)));
  const bool unacknowledged = idle && acknowledge_soon_;
  if (!short_of_credit && !unacknowledged) return false;
  StartAck(wire::kAckMagic);
  return WriteFrame();
}

void StreamRecvLane::StartAck(uint32_t magic) {
  sent_delivered_ = delivered();
  sent_credit_ = credit();
  acknowledge_soon_ = false;
  frame_ = std::bit_cast<Frame>(wire::AckFrame{.magic = magic,
                                               .slots = shape_.slots,
                                               .slot_bytes = shape_.slot_bytes,
                                               .reserved = 0,
                                               .delivered = sent_delivered_,
                                               .credit = sent_credit_});
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
