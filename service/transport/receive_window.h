// The slices of a lane that are on their way to its receiver, or have landed and are not released.
//
//   released ≤ delivered ≤ released + slots
//
// OWNER: a RecvLane of any kind. THREAD: the owning engine only. Never blocks, never allocates.
#ifndef MCCS_SERVICE_TRANSPORT_RECEIVE_WINDOW_H_
#define MCCS_SERVICE_TRANSPORT_RECEIVE_WINDOW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "service/device/lane_shape.h"
#include "service/device/region.h"
#include "service/transport/lane.h"
#include "service/transport/lane_link.h"

namespace mccs {

// The part of RecvLane that follows from the window alone.
class WindowedRecvLane : public LinkedLane<RecvLane> {
 public:
  void SetSink(SliceSink* sink) override { sink_ = sink; }
  RegionSpan slots() const override { return slots_; }
  Landing Landed(SliceNumber n) const override {
    if (n >= delivered_) return Landing::kNotYet;
    MCCS_CHECK(InWindow(n) && !At(n).released);
    return At(n).landing;
  }
  const SliceTag& Tag(SliceNumber n) const override {
    MCCS_CHECK(Landed(n) != Landing::kNotYet);
    return At(n).tag;
  }
  uint32_t Bytes(SliceNumber n) const override {
    MCCS_CHECK(Landed(n) != Landing::kNotYet);
    return At(n).bytes;
  }
  void Release(SliceNumber n) override {
    MCCS_CHECK(Landed(n) != Landing::kNotYet);
    At(n).released = true;
    while (released_ < delivered_ && At(released_).released) At(released_++) = {};
  }
  LaneCounters counters() const override {
    return {.slices = delivered_,
            .payload_bytes = landed_bytes_,
            .reconnects = link().reconnects(),
            .copied_bytes = copied_bytes_,
            .credit = shape_.slots - (delivered_ - released_)};
  }

 protected:
  struct Entry {
    SliceTag tag{};
    uint32_t bytes = 0;
    RegionSpan expected;
    SliceTag expected_tag{};
    bool expects = false;
    bool stays = false;  // ExpectInSlot
    bool released = false;
    Landing landing = Landing::kNotYet;
  };

  // REQUIRES: shape.slots ≥ 2; slots.bytes ≥ shape.slots × shape.slot_bytes, or 0.
  WindowedRecvLane(const LaneIdentity& identity, const LaneShape& shape, const RegionSpan& slots)
      : shape_(shape), slots_(slots), entries_(shape.slots) {
    MCCS_CHECK(shape.slots >= 2);
    MCCS_CHECK(slots.bytes == 0 || slots.bytes >= size_t{shape.slots} * shape.slot_bytes);
    SetQueues(identity.queues);
  }

  const Entry& At(SliceNumber n) const { return entries_[n % shape_.slots]; }
  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  bool InWindow(SliceNumber n) const { return n >= released_ && n < released_ + shape_.slots; }
  bool has_slots() const { return slots_.bytes > 0; }
  RegionSpan Slot(SliceNumber n) const {
    return slots_.Part((n % shape_.slots) * shape_.slot_bytes, shape_.slot_bytes);
  }
  SliceNumber released() const { return released_; }    // the smallest number not released
  SliceNumber delivered() const { return delivered_; }  // the slice that is arriving, or the next
  SliceNumber credit() const { return released_ + shape_.slots; }
  SliceSink* sink() const { return sink_; }

  // The memory for slice `n`, whose tag and length are known: that of its Expect, or that its sink
  // gives; nothing: neither.
  std::optional<RegionSpan> FindMemory(SliceNumber n) {
    const Entry& entry = At(n);
    if (entry.expects) {
      const bool fits = entry.expected_tag == entry.tag && entry.expected.bytes == entry.bytes;
      return fits ? std::optional<RegionSpan>(entry.expected) : std::nullopt;
    }
    if (sink_ == nullptr) return std::nullopt;
    const std::optional<RegionSpan> memory = sink_->FindDestination(n, entry.tag, entry.bytes);
    MCCS_CHECK(!memory.has_value() || memory->bytes == entry.bytes);
    return memory;
  }
  // Slice delivered() has landed.
  void Land() {
    const Entry& entry = At(delivered_);
    landed_bytes_ += entry.bytes;
    if (entry.expects && entry.landing == Landing::kInSlot) copied_bytes_ += entry.bytes;
    ++delivered_;
  }
  void CountCopied(uint64_t bytes) { copied_bytes_ += bytes; }

  const LaneShape shape_;
  const RegionSpan slots_;

 private:
  std::vector<Entry> entries_;
  SliceSink* sink_ = nullptr;
  SliceNumber released_ = 0;
  SliceNumber delivered_ = 0;
  uint64_t landed_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RECEIVE_WINDOW_H_
