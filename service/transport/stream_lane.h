// Lanes over byte streams: TCP sockets, or the simulator's.
//
// Zero-copy except for slices of at most kShortSliceBytes: the sender writes a payload from where
// it is, several slices per call. The receiver reads into the slot or the expected memory, and in
// the same call the header of the next slice.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_
#define MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/transport/lane.h"
#include "service/transport/lane_link.h"
#include "service/transport/network.h"
#include "service/transport/stream_wire.h"

namespace mccs {

// A slice up to this size is copied when it is posted, and may be copied when it is received. That
// costs less than another system call or a wait for the acknowledgement.
inline constexpr uint32_t kShortSliceBytes = 4096;

class StreamSendLane final : public SendLane {
 public:
  // REQUIRES: shape.slots ≥ 2.
  StreamSendLane(const LaneIdentity& identity, const LaneShape& shape);

  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                  const SliceTag& tag) override {
    return PostTo({}, payload, tag);
  }
  absl::StatusOr<std::optional<SliceNumber>> PostTo(const RemoteTarget& target,
                                                    const RegionSpan& payload,
                                                    const SliceTag& tag) override;
  std::optional<RemoteRegion> FindExposed(ExposureName name) const override {
    return peer_memory_.Find(name);
  }
  bool has_room() const override { return next_ != credit_ && !link_.failed(); }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override { return source_free_; }
  SliceNumber next() const override { return next_; }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  absl::Status status() const override { return link_.status(); }
  LaneState state() const override { return link_.state(); }
  LaneCounters counters() const override;
  Endpoint local() const override { return link_.local(); }
  Endpoint remote() const override { return link_.remote(); }
  void SetGate(SendGate* gate) override {
    gate_ = gate;
    gate_blocked_ = false;
  }
  void Mark(uint8_t dscp) override { link_.Mark(dscp); }
  LaneWait waits_for() const override;

 private:
  // The current connection's resume frame has arrived.
  bool resumed() const { return link_.state() == LaneState::kReady; }

  // One slice of the window, until it is acknowledged.
  struct Entry {
    uint32_t header_bytes() const { return wire::HeaderBytes(wire.header); }
    uint32_t bytes() const { return wire.header.bytes; }  // of payload
    bool is_copied() const { return bytes() <= kShortSliceBytes; }

    wire::TaggedSliceHeader wire{};
    std::byte* payload = nullptr;  // in `copy` if it is copied
    std::vector<std::byte> copy;   // as long as the longest short slice so far
  };

  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  bool ReadFrames();
  bool Accept(const wire::AckFrame& frame);
  bool AcceptExposure(const wire::ExposureFrame& frame);
  bool WriteSlices();
  // Limited to this many payload bytes.
  void GatherUnsent(uint64_t payload_bytes);
  // Returns the number of payload bytes in `written`.
  uint64_t Advance(size_t written);
  void ReportToGate();
  void FreeSources();

  const LaneShape shape_;
  LaneLink link_;
  std::vector<Entry> entries_;
  SliceTag last_tag_{};  // of slice next_ − 1
  PeerMemory peer_memory_;

  // acknowledged_ ≤ sent_ ≤ next_ ≤ credit_.
  SliceNumber acknowledged_ = 0;
  SliceNumber source_free_ = 0;
  SliceNumber sent_ = 0;       // completely written to the current connection
  SliceNumber ever_sent_ = 0;  // completely written to any connection
  SliceNumber next_ = 0;
  SliceNumber credit_ = 0;
  SendGate* gate_ = nullptr;
  bool gate_blocked_ = false;  // the gate blocked the last attempt to send
  uint64_t acknowledged_bytes_ = 0;

  size_t begun_bytes_ = 0;  // of slice sent_, header and payload, written to the current connection
  std::vector<iovec> gather_;

  std::vector<std::byte> frames_;  // received, the last one incomplete
  size_t frame_bytes_ = 0;
};

// Common to the lanes of one StreamTransport.
struct StreamShared {
  NoRegistrar no_registrar;
  RegistrationTable registrations;
  uint64_t last_key = 0;             // of RemoteKeys: one that another lane exposed is unknown here
  std::vector<std::byte> discarded;  // the last part of a discarded payload; unused

  explicit StreamShared(Registrar* registrar)
      : registrations(registrar != nullptr ? *registrar : no_registrar) {}
};

class StreamRecvLane final : public RecvLane {
 public:
  // REQUIRES: shape.slots ≥ 2; slots.bytes ≥ shape.slots × shape.slot_bytes, or 0.
  // LIFETIME: `shared` outlives this.
  StreamRecvLane(const LaneIdentity& identity, const LaneShape& shape, const RegionSpan& slots,
                 StreamShared& shared);

  void SetSink(SliceSink* sink) override { sink_ = sink; }
  bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) override;
  Landing Landed(SliceNumber n) const override;
  const SliceTag& Tag(SliceNumber n) const override;
  uint32_t Bytes(SliceNumber n) const override;
  RegionSpan slots() const override { return slots_; }
  absl::StatusOr<RemoteKey> Expose(ExposureName name, const RegionSpan& memory) override;
  void Withdraw(RemoteKey key) override;
  bool IsAccessible(RemoteKey) const override { return false; }
  std::optional<SliceTag> OldestTag() const override;
  std::vector<RegionSpan> UnusedSlots() const override;
  void Release(SliceNumber n) override;
  bool defers_acknowledgement() const override {
    return delivered_ > sent_delivered_ && !acknowledge_soon_;
  }
  void Acknowledge() override { acknowledge_soon_ = delivered_ > sent_delivered_; }
  void Mark(uint8_t dscp) override { link_.Mark(dscp); }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  absl::Status status() const override { return link_.status(); }
  LaneState state() const override { return link_.state(); }
  LaneCounters counters() const override;
  Endpoint local() const override { return link_.local(); }
  Endpoint remote() const override { return link_.remote(); }

 private:
  using Frame = std::array<std::byte, sizeof(wire::AckFrame)>;

  struct Entry {
    wire::SliceHeader header{};
    SliceTag tag{};
    RegionSpan expected;
    SliceTag expected_tag{};
    bool expects = false;
    bool released = false;
    Landing landing = Landing::kNotYet;
  };

  const Entry& At(SliceNumber n) const { return entries_[n % shape_.slots]; }
  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  bool InWindow(SliceNumber n) const { return n >= released_ && n < released_ + shape_.slots; }
  bool has_slots() const { return slots_.bytes > 0; }
  // Nothing of the arriving slice's payload has been placed.
  bool NothingPlaced() const { return payload_left_ == At(delivered_).header.bytes; }
  static RemoteTarget TargetOf(const wire::SliceHeader& header) {
    return {.key = RemoteKey(header.key), .offset = header.offset};
  }

  bool ReadSome();
  bool ParseInbox();
  bool TakeHeader();
  bool CheckHeader(const wire::SliceHeader& header);
  void TakePayload(size_t bytes_from_inbox);
  void ChooseLanding();
  void PlaceAt(const RegionSpan& memory, Landing landing);
  // Where the next bytes of the arriving slice's payload go.
  iovec Target();
  void GatherTargets();
  void Consume(size_t got);
  void Land();
  bool FlushFrames(bool moved);
  bool WriteFrame();
  void StartAck(uint32_t magic);
  void StartExposure(const ExposedMemory::Change& change);

  const LaneShape shape_;
  const RegionSpan slots_;
  StreamShared& shared_;
  LaneLink link_;
  ExposedMemory exposed_;
  SliceSink* sink_ = nullptr;
  std::vector<Entry> entries_;

  // released_ ≤ delivered_ ≤ released_ + slots.
  SliceNumber released_ = 0;   // the smallest number not released
  SliceNumber delivered_ = 0;  // the slice that is arriving, or the next one
  uint64_t landed_bytes_ = 0;
  SliceTag last_tag_{};  // of slice delivered_ − 1

  // The arriving slice: whether its header is complete, its memory, and its progress.
  bool header_here_ = false;
  bool waits_for_memory_ = false;  // of Expect, because there are no slots
  std::byte* memory_ = nullptr;    // unless it is discarded
  size_t payload_left_ = 0;
  std::vector<iovec> gather_;

  // Bytes read ahead: a header, and short slices after it.
  std::vector<std::byte> inbox_;
  size_t inbox_begin_ = 0;
  size_t inbox_end_ = 0;

  // The state that the sender knows, and the frame being sent to it.
  SliceNumber sent_delivered_ = 0;
  SliceNumber sent_credit_ = 0;
  bool acknowledge_soon_ = false;  // the sender needs it, or the owner requests it
  Frame frame_{};
  size_t frame_left_ = 0;
};

class StreamTransport final : public Transport {
 public:
  // `registrar`: for tests of users of registrations; null: they are complete at once.
  // LIFETIME: `registrar` outlives this.
  explicit StreamTransport(Registrar* registrar = nullptr) : shared_(registrar) {}

  std::unique_ptr<SendLane> MakeSendLane(const LaneIdentity& identity,
                                         const LaneShape& shape) override {
    return std::make_unique<StreamSendLane>(identity, shape);
  }
  std::unique_ptr<RecvLane> MakeRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                                         const RegionSpan& slots) override {
    return std::make_unique<StreamRecvLane>(identity, shape, slots, shared_);
  }
  RegistrationTable& registrations() override { return shared_.registrations; }

 private:
  StreamShared shared_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_
