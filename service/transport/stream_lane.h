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
#include "service/transport/receive_window.h"
#include "service/transport/stream_wire.h"

namespace mccs {

// A slice up to this size is copied when it is posted, and may be copied when it is received. That
// costs less than another system call or a wait for the acknowledgement.
inline constexpr uint32_t kShortSliceBytes = 4096;

class StreamSendLane final : public LinkedLane<SendLane> {
 public:
  // REQUIRES: shape.slots ≥ 2.
  StreamSendLane(const LaneIdentity& identity, const LaneShape& shape);

  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                  const SliceTag& tag) override;
  bool has_room() const override { return next_ != credit_ && !link_.failed(); }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override { return source_free_; }
  SliceNumber next() const override { return next_; }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  LaneCounters counters() const override;
  void SetGate(SendGate* gate) override {
    gate_ = gate;
    gate_blocked_ = false;
  }
  LaneWait waits_for() const override;

 private:
  const LaneLink& link() const override { return link_; }
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
  uint64_t copied_bytes_ = 0;

  size_t begun_bytes_ = 0;  // of slice sent_, header and payload, written to the current connection
  std::vector<iovec> gather_;

  std::vector<std::byte> frames_;  // received, the last one incomplete
  size_t frame_bytes_ = 0;
};

class StreamRecvLane final : public WindowedRecvLane {
 public:
  StreamRecvLane(const LaneIdentity& identity, const LaneShape& shape, const RegionSpan& slots);

  bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) override;
  std::optional<SliceTag> OldestTag() const override;
  std::vector<RegionSpan> UnusedSlots() const override;
  bool defers_acknowledgement() const override {
    return delivered() > sent_delivered_ && !acknowledge_soon_;
  }
  void Acknowledge() override { acknowledge_soon_ = delivered() > sent_delivered_; }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;

 private:
  using Frame = std::array<std::byte, sizeof(wire::AckFrame)>;

  const LaneLink& link() const override { return link_; }
  // Nothing of the arriving slice's payload has been placed.
  bool NothingPlaced() const { return payload_left_ == At(delivered()).bytes; }

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
  void LandSlice();
  bool FlushAcks(bool moved);
  bool WriteFrame();
  void StartAck(uint32_t magic);

  LaneLink link_;
  SliceTag last_tag_{};  // of slice delivered() − 1

  // The arriving slice: whether its header is complete, its memory, and its progress.
  bool header_here_ = false;
  bool waits_for_memory_ = false;  // of Expect, because there are no slots
  std::byte* memory_ = nullptr;    // unless it is discarded
  size_t payload_left_ = 0;
  std::vector<iovec> gather_;
  std::vector<std::byte> discarded_;  // the last part of a discarded payload; unused

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
  std::unique_ptr<SendLane> MakeSendLane(const LaneIdentity& identity,
                                         const LaneShape& shape) override {
    return std::make_unique<StreamSendLane>(identity, shape);
  }
  std::unique_ptr<RecvLane> MakeRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                                         const RegionSpan& slots) override {
    return std::make_unique<StreamRecvLane>(identity, shape, slots);
  }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_
