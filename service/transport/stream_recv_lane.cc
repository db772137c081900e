#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "service/transport/stream_lane.h"

namespace mccs {
namespace {

// Reads per Poll; limited so that other lanes get their turns.
constexpr int kMaxReadsPerPoll = 4;
constexpr size_t kHeaderBytes = sizeof(wire::SliceHeader);
constexpr size_t kInboxBytes = 2 * kHeaderBytes + kShortSliceBytes;

}  // namespace

StreamRecvLane::StreamRecvLane(const LaneShape& shape, const RegionSpan& slots)
    : shape_(shape),
      slots_(slots),
      entries_(shape.slots),
      inbox_(kInboxBytes),
      sent_credit_(shape.slots) {
  MCCS_CHECK(shape.slots >= 2);
  MCCS_CHECK(slots.bytes >= size_t{shape.slots} * shape.slot_bytes);
}

bool StreamRecvLane::Expect(SliceNumber n, std::span<const RegionSpan> pieces,
                            const SliceTag& tag) {
  if (!InWindow(n) || n < delivered_ || pieces.size() > kMaxSlicePieces) return false;
  const bool arriving = n == delivered_ && header_here_;
  Entry& entry = At(n);
  if (arriving && payload_left_ < entry.header.bytes) return false;
  entry.expected.clear();
  entry.expected_bytes = 0;
  for (const RegionSpan& piece : pieces) {
    if (piece.bytes == 0) continue;
    entry.expected.push_back({.iov_base = piece.address(), .iov_len = piece.bytes});
    entry.expected_bytes += piece.bytes;
  }
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
  return At(n).header.tag;
}

uint32_t StreamRecvLane::Bytes(SliceNumber n) const {
  MCCS_CHECK(Landed(n) != Landing::kNotYet);
  return At(n).header.bytes;
}

std::optional<SliceTag> StreamRecvLane::OldestTag() const {
  if (released_ == delivered_) return std::nullopt;
  return At(released_).header.tag;
}

std::vector<RegionSpan> StreamRecvLane::UnusedSlots() const {
  std::vector<RegionSpan> unused;
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

bool StreamRecvLane::Poll() {
  if (link_.get() == nullptr) return false;
  bool moved = false;
  const uint64_t end = moved_bytes() + kMaxBytesPerPoll;
  for (int i = 0; i < kMaxReadsPerPoll && moved_bytes() < end && ReadSome(); ++i) moved = true;
  if (link_.get() != nullptr && FlushAcks(moved)) moved = true;
  return moved || link_.get() == nullptr;
}

void StreamRecvLane::Attach(std::unique_ptr<Connection> connection) {
  if (!link_.Attach(std::move(connection))) return;
  // An incomplete slice is sent again, including its header.
  header_here_ = false;
  inbox_begin_ = inbox_end_ = 0;
  StartFrame(wire::kResumeMagic);
}

LaneCounters StreamRecvLane::counters() const {
  return {.slices = delivered_,
          .payload_bytes = landed_bytes_,
          .reconnects = link_.reconnects(),
          .credit = shape_.slots - (delivered_ - released_)};
}

// Makes one read call and handles its bytes; returns false if nothing arrived.
bool StreamRecvLane::ReadSome() {
  if (link_.get() == nullptr || !link_.get()->readable()) return false;
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
    size_t offset = done_bytes_;
    for (size_t i = done_pieces_; i < targets_.size(); ++i, offset = 0) {
      gather_.push_back({.iov_base = static_cast<std::byte*>(targets_[i].iov_base) + offset,
                         .iov_len = targets_[i].iov_len - offset});
    }
    if (At(delivered_).header.bytes > kShortSliceBytes) ahead = kHeaderBytes;
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
    if (here >= kHeaderBytes) return TakeHeader();
    if (inbox_begin_ > 0) {
      std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, here);
      inbox_begin_ = 0;
      inbox_end_ = here;
    }
    return false;
  }
  size_t take = std::min(here, payload_left_);
  if (take == 0) return false;
  size_t left = take;
  size_t offset = done_bytes_;
  for (size_t i = done_pieces_; left > 0; ++i, offset = 0) {
    const size_t part = std::min(left, targets_[i].iov_len - offset);
    std::memcpy(static_cast<std::byte*>(targets_[i].iov_base) + offset,
                inbox_.data() + inbox_begin_, part);
    inbox_begin_ += part;
    left -= part;
  }
  TakePayload(take);
  if (inbox_begin_ == inbox_end_) inbox_begin_ = inbox_end_ = 0;
  return true;
}

// Returns false if the lane has failed.
bool StreamRecvLane::TakeHeader() {
  Entry& entry = At(delivered_);
  wire::SliceHeader header;
  std::memcpy(&header, inbox_.data() + inbox_begin_, kHeaderBytes);
  if (header.magic != wire::kSliceMagic) {
    link_.Fail("invalid slice header: it begins with 0x", absl::Hex(header.magic));
  } else if (header.number != delivered_) {
    link_.Fail("slice ", header.number, " arrived, expected slice ", delivered_);
  } else if (header.number >= sent_credit_) {
    link_.Fail("slice ", header.number, " arrived with credit for only ", sent_credit_, " slices");
  } else if (header.bytes > shape_.slot_bytes) {
    link_.Fail("slice ", header.number, " has ", header.bytes, " bytes, more than a slot of ",
               shape_.slot_bytes);
  }
  if (link_.failed()) return false;
  inbox_begin_ += kHeaderBytes;
  if (inbox_begin_ == inbox_end_) inbox_begin_ = inbox_end_ = 0;
  entry.header = header;
  header_here_ = true;
  payload_left_ = header.bytes;
  ChooseLanding();
  if (payload_left_ == 0) Land();
  return true;
}

// REQUIRES: the arriving slice's header is complete and none of its payload has been placed.
void StreamRecvLane::ChooseLanding() {
  Entry& entry = At(delivered_);
  const bool direct = entry.expects && entry.expected_tag == entry.header.tag &&
                      entry.expected_bytes == entry.header.bytes;
  if (!entry.expects && sink_ != nullptr && PlaceBySink(entry)) return;
  entry.landing = direct ? Landing::kDirect : Landing::kInSlot;
  targets_.clear();
  if (direct) {
    targets_ = entry.expected;
  } else if (entry.header.bytes > 0) {
    targets_.push_back({.iov_base = Slot(delivered_), .iov_len = entry.header.bytes});
  }
  done_pieces_ = done_bytes_ = 0;
}

// Returns true if the sink provides memory.
bool StreamRecvLane::PlaceBySink(Entry& entry) {
  sink_pieces_.clear();
  if (!sink_->FindDestination(entry.header.tag, entry.header.bytes, sink_pieces_)) return false;
  entry.landing = Landing::kDirect;
  targets_.clear();
  size_t bytes = 0;
  for (const RegionSpan& piece : sink_pieces_) {
    if (piece.bytes > 0) targets_.push_back({.iov_base = piece.address(), .iov_len = piece.bytes});
    bytes += piece.bytes;
  }
  MCCS_CHECK(bytes == entry.header.bytes);
  done_pieces_ = done_bytes_ = 0;
  return true;
}

// Accounts for `bytes` of the arriving slice.
void StreamRecvLane::TakePayload(size_t bytes) {
  payload_left_ -= bytes;
  while (bytes > 0) {
    const size_t left = targets_[done_pieces_].iov_len - done_bytes_;
    if (bytes < left) {
      done_bytes_ += bytes;
      return;
    }
    bytes -= left;
    done_bytes_ = 0;
    ++done_pieces_;
  }
  if (payload_left_ == 0) Land();
}

void StreamRecvLane::Land() {
  landed_bytes_ += At(delivered_).header.bytes;
  header_here_ = false;
  ++delivered_;
}

// Sends acknowledgement and credit if they have changed: at once if the sender may be short of
// credit. Otherwise as soon as no more bytes arrive, so that the owner has handled (and perhaps
// released) what landed, and one frame covers it all. A sender with more than half a window left
// does not wait for credit.
bool StreamRecvLane::FlushAcks(bool moved) {
  if (frame_left_ > 0) return WriteFrame();
  const SliceNumber gain = released_ + shape_.slots - sent_credit_;
  const SliceNumber left = sent_credit_ - delivered_;
  const bool idle = !moved;
  const bool short_of_credit =
      gain > 0 && (left <= 1 || (left <= shape_.slots / 2 && (idle || gain >= shape_.slots / 4)));
  const bool unacknowledged = idle && delivered_ > sent_delivered_;
  if (!short_of_credit && !unacknowledged) return false;
  StartFrame(wire::kAckMagic);
  return WriteFrame();
}

void StreamRecvLane::StartFrame(uint32_t magic) {
  sent_delivered_ = delivered_;
  sent_credit_ = released_ + shape_.slots;
  frame_ = {.magic = magic,
            .slots = shape_.slots,
            .slot_bytes = shape_.slot_bytes,
            .reserved = 0,
            .delivered = sent_delivered_,
            .credit = sent_credit_};
  frame_left_ = sizeof(frame_);
}

bool StreamRecvLane::WriteFrame() {
  if (!link_.get()->writable()) return false;
  const iovec rest{
      .iov_base = reinterpret_cast<std::byte*>(&frame_) + (sizeof(frame_) - frame_left_),
      .iov_len = frame_left_};
  absl::StatusOr<size_t> written = link_.get()->Write({&rest, 1});
  if (!written.ok()) {
    link_.Stall(written.status());
    return false;
  }
  frame_left_ -= *written;
  return *written > 0;
}

}  // namespace mccs
