// Lanes and a device controlled by a test: nothing moves until the test says so. A use of a lane
// that breaks its contract fails the test.
#ifndef MCCS_TESTS_UNIT_EXECUTOR_FAKE_LANES_H_
#define MCCS_TESTS_UNIT_EXECUTOR_FAKE_LANES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/device/interpreted_plan.h"
#include "service/device/mem_op.h"
#include "service/device/memory_mapper.h"
#include "service/executor/executor.h"
#include "service/transport/lane.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {

inline constexpr LaneShape kFakeLaneShape{.slots = 2, .slot_bytes = 256};
inline constexpr SliceNumber kNoLimit = std::numeric_limits<SliceNumber>::max();

// Accepts operations while it has room, and performs each on the test's request.
class ManualDevice final : public Device {
 public:
  MemoryMapper& mapper() override { return mapper_; }
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t) override {
    return absl::UnimplementedError("not asked for here");
  }
  void Discard(std::span<std::byte>) override {}
  Submitted Submit(const MemOp& op, MemToken token) override {
    if (held_.size() >= room) return Submitted::kQueueFull;
    held_.push_back({op, token});
    ++submitted;
    return Submitted::kStarted;
  }
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) override {
    return InterpretedPlan::Make(*this, std::move(plan));
  }
  Polled Poll(std::span<Finished>) override { return {}; }
  std::string Description() const override { return "held"; }

  size_t held() const { return held_.size(); }
  void Finish(size_t index = 0) {
    const Held done = held_[index];
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(index));
    RunMemOp(done.op);
    PendingMemOps::OnFinished({.token = done.token, .error = nullptr});
  }
  // The operation fails, as one on a lost GPU.
  void Fail(const absl::Status& error) {
    const Held failed = held_.front();
    held_.erase(held_.begin());
    PendingMemOps::OnFinished({.token = failed.token, .error = &error});
  }

  bool lanes_reach_buffers() const override { return lanes_reach; }

  size_t room = 1000;
  size_t submitted = 0;
  bool lanes_reach = true;

 private:
  MemoryMapper mapper_{std::make_unique<LocalImporter>(), nullptr};
  struct Held {
    MemOp op;
    MemToken token;
  };
  std::vector<Held> held_;
};

// Reads posted sources only on request: as late as the acknowledgement allows.
class FakeSendLane final : public SendLane {
 public:
  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                  const SliceTag& tag) override {
    if (!failure.ok()) return failure;
    if (next() >= credit) return std::nullopt;
    posted_.push_back({payload, tag});
    return next() - 1;
  }
  bool has_room() const override { return next() < credit; }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override {
    return std::min(next(), std::max(acknowledged_, copied));
  }
  SliceNumber next() const override { return posted_.size(); }
  bool Poll() override { return false; }
  void Attach(std::unique_ptr<Connection>) override {}
  absl::Status status() const override { return failure; }
  LaneState state() const override { return failure.ok() ? LaneState::kReady : LaneState::kFailed; }
  void SetGate(SendGate*) override {}
  void Mark(uint8_t) override {}
  LaneWait waits_for() const override { return wait; }
  LaneCounters counters() const override { return {}; }
  Endpoint local() const override { return {}; }
  Endpoint remote() const override { return {}; }

  std::vector<int32_t> Read(SliceNumber n) const {
    const RegionSpan& payload = posted_[n].payload;
    const auto* first = reinterpret_cast<const int32_t*>(payload.address());
    return {first, first + payload.bytes / sizeof(int32_t)};
  }
  const SliceTag& TagAt(SliceNumber n) const { return posted_[n].tag; }
  // The next slice has been delivered; returns its payload.
  std::vector<int32_t> Acknowledge() {
    NotifyUser();
    return Read(acknowledged_++);
  }

  absl::StatusOr<std::shared_ptr<const void>> Reach(const Region&) override {
    ++asked;
    if (!reach.ok()) return reach;
    return held;
  }
  const void* reach_domain() const override { return domain; }

  SliceNumber credit = kNoLimit;
  SliceNumber copied = 0;  // the lane has copied all slices below
  LaneWait wait = LaneWait::kNothing;
  absl::Status failure;
  absl::Status reach;
  const void* domain = this;
  int asked = 0;  // for what it reaches
  std::shared_ptr<const void> held = std::make_shared<int>(0);

 private:
  struct Slice {
    RegionSpan payload;
    SliceTag tag;
  };
  std::vector<Slice> posted_;
  SliceNumber acknowledged_ = 0;
};

class FakeRecvLane : public RecvLane {
 public:
  void SetSink(SliceSink* sink) override { sink_ = sink; }
  bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) override {
    if (n < landed_.size() || n >= released_ + kFakeLaneShape.slots) return false;
    expected_[n % kFakeLaneShape.slots] = {n, memory, tag};
    return true;
  }
  Landing Landed(SliceNumber n) const override {
    EXPECT_FALSE(IsReleased(n)) << "requested slice " << n << " after its release";
    return n < landed_.size() ? landed_[n].where : Landing::kNotYet;
  }
  const SliceTag& Tag(SliceNumber n) const override { return landed_[n].tag; }
  uint32_t Bytes(SliceNumber n) const override { return landed_[n].bytes; }
  RegionSpan slots() const override { return SpanAt(slots_[0], sizeof(slots_)); }
  std::optional<SliceTag> OldestTag() const override {
    if (released_ == landed_.size()) return std::nullopt;
    return landed_[released_].tag;
  }
  std::vector<RegionSpan> UnusedSlots() const override { return {}; }
  void Release(SliceNumber n) override {
    ASSERT_LT(n, landed_.size()) << "released before it landed";
    ASSERT_FALSE(landed_[n].released) << "released twice";
    landed_[n].released = true;
    // A later read would be wrong.
    std::ranges::fill(slots_[n % kFakeLaneShape.slots], std::byte{0xee});
    while (released_ < landed_.size() && landed_[released_].released) ++released_;
  }
  bool defers_acknowledgement() const override { return false; }
  void Acknowledge() override {}
  void Mark(uint8_t) override {}
  bool Poll() override { return false; }
  void Attach(std::unique_ptr<Connection>) override {}
  absl::Status status() const override { return absl::OkStatus(); }
  LaneState state() const override { return LaneState::kReady; }
  LaneCounters counters() const override { return {}; }
  Endpoint local() const override { return {}; }
  Endpoint remote() const override { return {}; }

  // The next slice arrives; false if its slot is not free yet, as the sender would know.
  bool Arrive(const std::vector<int32_t>& values, const SliceTag& tag) {
    const SliceNumber n = landed_.size();
    if (n >= released_ + kFakeLaneShape.slots) return false;
    const auto* from = reinterpret_cast<const std::byte*>(values.data());
    const auto bytes = static_cast<uint32_t>(values.size() * sizeof(int32_t));
    const Expected& expected = expected_[n % kFakeLaneShape.slots];
    std::optional<RegionSpan> direct;
    if (expected.number != n) {
      if (sink_ != nullptr) direct = sink_->FindDestination(n, tag, bytes);
    } else if (expected.tag == tag && expected.memory.bytes == bytes) {
      direct = expected.memory;
    }
    std::copy_n(from, bytes,
                direct.has_value() ? direct->address() : slots_[n % kFakeLaneShape.slots]);
    landed_.push_back({direct.has_value() ? Landing::kDirect : Landing::kInSlot, tag, bytes});
    NotifyUser();
    return true;
  }
  SliceSink* sink() { return sink_; }
  size_t landed() const { return landed_.size(); }
  SliceNumber released() const { return released_; }  // all slices below
  Landing WhereWas(SliceNumber n) const { return landed_[n].where; }

 private:
  struct Expected {
    SliceNumber number = kNoLimit;
    RegionSpan memory;
    SliceTag tag{};
  };
  struct Slice {
    Landing where;
    SliceTag tag;
    uint32_t bytes;
    bool released = false;
  };
  bool IsReleased(SliceNumber n) const { return n < landed_.size() && landed_[n].released; }

  alignas(64) mutable std::byte slots_[kFakeLaneShape.slots][kFakeLaneShape.slot_bytes];
  SliceSink* sink_ = nullptr;
  Expected expected_[kFakeLaneShape.slots];
  std::vector<Slice> landed_;
  SliceNumber released_ = 0;
};

// Lanes of one channel to and from a few hosts.
class FakeDirectory final : public LaneDirectory {
 public:
  static constexpr int kHosts = 4;

  SendLane* SendTo(ChannelId, HostIndex peer) override { return &sends_[Index(peer)]; }
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId, HostIndex peer) override {
    if (!memory.ok()) return memory;
    return &receives_[Index(peer)];
  }
  absl::StatusOr<RegionSpan> StagingTo(ChannelId, HostIndex peer) override {
    if (!memory.ok()) return memory;
    ++stagings;
    return SpanAt(staging_[Index(peer)], sizeof(staging_[0]));
  }

  FakeSendLane& to(int host) { return sends_[host]; }
  FakeRecvLane& from(int host) { return receives_[host]; }

  absl::Status memory;  // result of a request for more memory
  int stagings = 0;     // number of staging areas created

 private:
  static size_t Index(HostIndex peer) {
    EXPECT_TRUE(peer.value() >= 0 && peer.value() < kHosts);
    return static_cast<size_t>(peer.value());
  }

  FakeSendLane sends_[kHosts];
  FakeRecvLane receives_[kHosts];
  alignas(64) std::byte staging_[kHosts][kFakeLaneShape.staging_bytes()];
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_EXECUTOR_FAKE_LANES_H_
