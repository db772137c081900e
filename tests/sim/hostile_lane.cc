#include "tests/sim/hostile_lane.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace mccs {
namespace {

constexpr size_t kReadBytes = 32 * 1024;
constexpr size_t kMaxSlices = 64;

template <typename Plain>
void Append(std::string& bytes, const Plain& plain) {
  bytes.append(reinterpret_cast<const char*>(&plain), sizeof(plain));
}

}  // namespace

HostileLane::HostileLane(std::unique_ptr<Connection> connection, const Preamble& preamble,
                         const LaneShape& shape, bool sends)
    : connection_(std::move(connection)), preamble_(preamble), shape_(shape), sends_(sends) {
  if (!sends_) Acknowledge(wire::kResumeMagic);
}

bool HostileLane::Poll() {
  if (broken_) return false;
  bool moved = Read();
  if (sends_) {
    TakeFrame();
    while (!waiting_.empty() && next_ < credit_) {
      const Slice slice = std::move(waiting_.front());
      waiting_.pop_front();
      WriteSlice(next_++, slice.payload.size(), slice);
    }
  } else {
    while (TakeSlice()) moved = true;
  }
  return Write() || moved;
}

void HostileLane::Send(Slice slice) {
  if (waiting_.size() < kMaxSlices) waiting_.push_back(std::move(slice));
}

void HostileLane::Attack(Dice& dice) {
  if (!sends_) {
    next_ = RandomBoundaryNumber(next_, dice);
    Acknowledge(dice() % 4 == 0 ? wire::kResumeMagic : wire::kAckMagic);
    return;
  }
  Slice slice;
  if (!waiting_.empty()) slice = waiting_.front();
  if (dice() % 2 == 0) slice.tag[dice() % slice.tag.size()] = static_cast<std::byte>(dice());
  const uint64_t bytes =
      RandomBoundaryNumber(dice() % 2 == 0 ? shape_.slot_bytes : dice() % 64, dice);
  slice.payload.resize(dice() % 3 == 0 ? std::min<uint64_t>(bytes, shape_.slot_bytes) : 0);
  WriteSlice(dice() % 2 == 0 ? next_++ : RandomBoundaryNumber(next_, dice), bytes, slice);
}

// ---- Bytes --------------------------------------------------------------------------------------

bool HostileLane::Read() {
  if (!connection_->readable()) return false;
  std::array<char, kReadBytes> bytes;
  const iovec piece{bytes.data(), bytes.size()};
  const auto got = connection_->Read({&piece, 1});
  broken_ = !got.ok();
  if (broken_) return true;
  incoming_.append(bytes.data(), *got);
  return *got > 0;
}

bool HostileLane::Write() {
  if (outgoing_.empty() || !connection_->writable()) return false;
  const iovec piece{outgoing_.data(), outgoing_.size()};
  const auto written = connection_->Write({&piece, 1});
  broken_ = !written.ok();
  if (broken_) return true;
  outgoing_.erase(0, *written);
  return *written > 0;
}

// Takes only complete slices.
bool HostileLane::TakeSlice() {
  wire::TaggedSliceHeader slice{};
  if (incoming_.size() < sizeof(slice.header)) return false;
  std::memcpy(&slice.header, incoming_.data(), sizeof(slice.header));
  const bool tagged = slice.header.magic == wire::kTaggedSliceMagic;
  const size_t before = tagged ? sizeof(slice) : sizeof(slice.header);
  if (incoming_.size() < before + slice.header.bytes) return false;
  std::memcpy(&slice, incoming_.data(), before);
  if (tagged) tag_ = slice.tag;
  slices_.push_back({tag_, incoming_.substr(before, slice.header.bytes)});
  if (slices_.size() > kMaxSlices) slices_.pop_front();
  incoming_.erase(0, before + slice.header.bytes);
  ++next_;
  Acknowledge(wire::kAckMagic);
  return true;
}

void HostileLane::TakeFrame() {
  wire::AckFrame frame;
  while (incoming_.size() >= sizeof(frame)) {
    std::memcpy(&frame, incoming_.data(), sizeof(frame));
    incoming_.erase(0, sizeof(frame));
    credit_ = std::max(credit_, frame.credit);
  }
}

void HostileLane::Acknowledge(uint32_t magic) {
  Append(outgoing_, wire::AckFrame{.magic = magic,
                                   .slots = shape_.slots,
                                   .slot_bytes = shape_.slot_bytes,
                                   .reserved = 0,
                                   .delivered = next_,
                                   .credit = next_ + shape_.slots});
}

void HostileLane::WriteSlice(uint64_t number, uint64_t bytes, const Slice& slice) {
  Append(outgoing_, wire::TaggedSliceHeader{.header = {.magic = wire::kTaggedSliceMagic,
                                                       .bytes = static_cast<uint32_t>(bytes),
                                                       .number = number},
                                            .tag = slice.tag});
  outgoing_ += slice.payload;
}

}  // namespace mccs
