#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/stream_lane.h"

namespace mccs {
namespace {

// Maximum number of headers and payloads per write call: enough to fill a socket's buffer, and few
// enough that the engine soon reads again.
constexpr size_t kMaxGather = 256;
constexpr size_t kMaxWriteBytes = 1 << 20;
// Writes per Poll; limited so that other lanes get their turns.
constexpr int kMaxWritesPerPoll = 4;
constexpr size_t kFramesPerRead = 32;
constexpr size_t kFrameBytes = sizeof(wire::AckFrame);

}  // namespace

StreamSendLane::StreamSendLane(const LaneIdentity& identity, const LaneShape& shape)
    : shape_(shape),
      entries_(shape.slots),
      credit_(shape.slots),
      frames_(kFramesPerRead * kFrameBytes) {
  MCCS_CHECK(shape.slots >= 2);
  SetQueues(identity.queues);
  gather_.reserve(kMaxGather);
}

absl::StatusOr<std::optional<SliceNumber>> StreamSendLane::Post(const RegionSpan& payload,
                                                                const SliceTag& tag) {
  if (link_.failed()) return link_.status();
  if (payload.bytes > shape_.slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice of ", payload.bytes, " bytes: expected at most ", shape_.slot_bytes));
  }
  if (!payload.is_mapped()) {
    return absl::InvalidArgumentError("a stream cannot send from memory on a GPU");
  }
  // Credit bounds the queue too: Accept ensures that it never exceeds acknowledged_ + slots.
  if (!has_room()) return std::nullopt;

  Entry& entry = At(next_);
  const bool tagged = next_ == 0 || tag != last_tag_;
  entry.wire.header = {.magic = tagged ? wire::kTaggedSliceMagic : wire::kSliceMagic,
                       .bytes = static_cast<uint32_t>(payload.bytes),
                       .number = next_};
  if (tagged) entry.wire.tag = last_tag_ = tag;
  entry.payload = payload.address();
  if (entry.is_copied() && payload.bytes > 0) {
    if (entry.copy.size() < payload.bytes) entry.copy.resize(payload.bytes);
    std::memcpy(entry.copy.data(), entry.payload, payload.bytes);
    copied_bytes_ += payload.bytes;
    entry.payload = entry.copy.data();
  }
  const SliceNumber number = next_++;
  FreeSources();
  return number;
}

bool StreamSendLane::Poll() {
  gate_blocked_ = false;
  bool moved = false;
  const bool connected = link_.get() != nullptr;
  if (connected) {
    moved = ReadFrames();
    const uint64_t end = moved_bytes() + kMaxBytesPerPoll;
    for (int i = 0; i < kMaxWritesPerPoll && moved_bytes() < end && WriteSlices(); ++i) {
      moved = true;
    }
  }
  if (gate_ != nullptr) ReportToGate();
  return moved || (connected && link_.get() == nullptr);
}

void StreamSendLane::ReportToGate() {
  const bool up = resumed();
  gate_->OnTurnEnd({.held = gate_blocked_,
                    .unsent = up && sent_ != next_,
                    .in_flight = up && (sent_ > source_free_ || begun_bytes_ > 0)});
}

LaneWait StreamSendLane::waits_for() const {
  if (sent_ != next_) return gate_blocked_ ? LaneWait::kRate : LaneWait::kConnection;
  return next_ == credit_ ? LaneWait::kCredit : LaneWait::kNothing;
}

void StreamSendLane::Attach(std::unique_ptr<Connection> connection) {
  if (!link_.Attach(std::move(connection))) return;
  frame_bytes_ = 0;
  sent_ = acknowledged_;
  begun_bytes_ = 0;
}

LaneCounters StreamSendLane::counters() const {
  return {.slices = acknowledged_,
          .payload_bytes = acknowledged_bytes_,
          .reconnects = link_.reconnects(),
          .copied_bytes = copied_bytes_,
          .credit = credit_ - next_};
}

bool StreamSendLane::ReadFrames() {
  if (!link_.get()->readable()) return false;
  const iovec room{.iov_base = frames_.data() + frame_bytes_,
                   .iov_len = frames_.size() - frame_bytes_};
  absl::StatusOr<size_t> got = link_.get()->Read({&room, 1});
  if (!got.ok()) {
    link_.Stall(got.status());
    return false;
  }
  frame_bytes_ += *got;
  size_t taken = 0;
  for (; frame_bytes_ - taken >= kFrameBytes; taken += kFrameBytes) {
    wire::AckFrame frame;
    std::memcpy(&frame, frames_.data() + taken, kFrameBytes);
    if (!Accept(frame)) return false;
  }
  frame_bytes_ -= taken;
  std::memmove(frames_.data(), frames_.data() + taken, frame_bytes_);
  return *got > 0;
}

// Returns false if the lane has failed.
bool StreamSendLane::Accept(const wire::AckFrame& frame) {
  const uint32_t expected = resumed() ? wire::kAckMagic : wire::kResumeMagic;
  const SliceNumber most = resumed() ? sent_ : ever_sent_;
  if (frame.magic != expected || frame.reserved != 0) {
    link_.Fail("invalid ", resumed() ? "ack" : "resume", " frame: it begins with 0x",
               absl::Hex(frame.magic));
  } else if (frame.slots != shape_.slots || frame.slot_bytes != shape_.slot_bytes) {
    link_.Fail("the peer has ", frame.slots, " slots of ", frame.slot_bytes, " bytes, this end ",
               shape_.slots, " of ", shape_.slot_bytes);
  } else if (frame.delivered < acknowledged_ || frame.delivered > most) {
    link_.Fail("invalid acknowledgement: ", frame.delivered, " slices delivered; expected ",
               acknowledged_, " to ", most);
  } else if (frame.credit < credit_ || frame.credit > frame.delivered + shape_.slots) {
    link_.Fail("invalid credit: ", frame.credit, " slices; expected ", credit_, " to ",
               frame.delivered + shape_.slots);
  }
  if (link_.failed()) return false;

  for (; acknowledged_ < frame.delivered; ++acknowledged_) {
    acknowledged_bytes_ += At(acknowledged_).bytes();
  }
  credit_ = frame.credit;
  if (!resumed()) {
    link_.SetReady();
    sent_ = acknowledged_;
  }
  FreeSources();
  return true;
}

// Makes one write call; returns false if there was nothing to send or no room.
bool StreamSendLane::WriteSlices() {
  if (!resumed() || sent_ == next_ || !link_.get()->writable()) {
    return false;
  }
  const uint64_t allowance =
      gate_ != nullptr ? gate_->Allowance() : std::numeric_limits<uint64_t>::max();
  gate_blocked_ = allowance == 0;
  if (gate_blocked_) return false;
  GatherUnsent(allowance);
  absl::StatusOr<size_t> written = link_.get()->Write(gather_);
  if (!written.ok()) {
    link_.Stall(written.status());
    return false;
  }
  CountMoved(*written);
  const uint64_t payload = Advance(*written);
  if (gate_ != nullptr && payload > 0) gate_->Sent(payload);
  return *written > 0;
}

void StreamSendLane::GatherUnsent(uint64_t payload_bytes) {
  gather_.clear();
  size_t bytes = 0;
  uint64_t payload = 0;
  size_t done = begun_bytes_;
  for (SliceNumber n = sent_; n < next_; ++n, done = 0) {
    if (gather_.size() + 2 > kMaxGather || bytes >= kMaxWriteBytes || payload >= payload_bytes) {
      return;
    }
    Entry& entry = At(n);
    const size_t header = entry.header_bytes();
    if (done < header) {
      gather_.push_back(
          {.iov_base = reinterpret_cast<std::byte*>(&entry.wire) + done, .iov_len = header - done});
      bytes += header - done;
      done = header;
    }
    const size_t offset = done - header;
    const auto length =
        static_cast<size_t>(std::min<uint64_t>(entry.bytes() - offset, payload_bytes - payload));
    if (length == 0) continue;
    gather_.push_back({.iov_base = entry.payload + offset, .iov_len = length});
    bytes += length;
    payload += length;
  }
}

uint64_t StreamSendLane::Advance(size_t written) {
  uint64_t payload = 0;
  while (written > 0) {
    const Entry& entry = At(sent_);
    const size_t header = entry.header_bytes();
    const size_t whole = header + entry.bytes();
    const size_t from = begun_bytes_;
    begun_bytes_ = std::min(from + written, whole);
    payload += std::max(begun_bytes_, header) - std::max(from, header);
    written -= begun_bytes_ - from;
    if (begun_bytes_ == whole) {
      begun_bytes_ = 0;
      ever_sent_ = std::max(ever_sent_, ++sent_);
    }
  }
  return payload;
}

void StreamSendLane::FreeSources() {
  source_free_ = std::max(source_free_, acknowledged_);
  while (source_free_ < next_ && At(source_free_).is_copied()) ++source_free_;
}

}  // namespace mccs
