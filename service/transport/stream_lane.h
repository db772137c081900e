// Lanes over byte streams: TCP sockets, or the simulator's.
//
// Zero-copy except for slices of at most kShortSliceBytes: the sender writes its pieces from where
// they are, several slices per call. The receiver reads into the slot or the expected pieces, and
// in the same call the header of the next slice.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_
#define MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/transport/lane.h"
#include "service/transport/network.h"

namespace mccs::wire {

// The bytes on a lane's connection. Little-endian, no padding.
//
// From sender to receiver, once per slice, followed by the payload:
//
//    0         4         8                 16                                 48
//    | magic   | bytes   | slice number     | tag (of the executor)            | payload …
//
// From receiver to sender. The first frame on every connection is a resume. The sender waits for it
// and continues from its `delivered`. Acks follow.
//
//    0         4         8         12        16                24                32
//    | magic   | slots   | slot    | reserved| delivered        | credit           |
//    |         |         |  bytes  |  = 0    |                  |                  |
//
// `delivered`: slices with smaller numbers have landed. `credit`: slices with smaller numbers may
// be sent. Neither decreases; delivered ≤ credit ≤ delivered + slots.
static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kSliceMagic = 0x53'4c'43'4d;   // "MCLS"
inline constexpr uint32_t kResumeMagic = 0x52'4c'43'4d;  // "MCLR"
inline constexpr uint32_t kAckMagic = 0x41'4c'43'4d;     // "MCLA"

struct SliceHeader {
  uint32_t magic;  // kSliceMagic
  uint32_t bytes;  // of payload, ≤ the shape's slot_bytes
  uint64_t number;
  SliceTag tag;
};
static_assert(sizeof(SliceHeader) == 48 && offsetof(SliceHeader, number) == 8 &&
              offsetof(SliceHeader, tag) == 16 && std::is_trivially_copyable_v<SliceHeader>);

struct AckFrame {
  uint32_t magic;  // kResumeMagic or kAckMagic
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t reserved;
  uint64_t delivered;
  uint64_t credit;
};
static_assert(sizeof(AckFrame) == 32 && offsetof(AckFrame, delivered) == 16 &&
              offsetof(AckFrame, credit) == 24 && std::is_trivially_copyable_v<AckFrame>);

}  // namespace mccs::wire

namespace mccs {

// State shared by both ends of a lane over byte streams: the replaceable connection and its status.
//
// clang-format off
//            Attach                    broken
//   stalled ────────► connected ──────────────► stalled
//      │                  │  the peer violates the protocol
//      └──────────────────┴──────────────────────────────► failed (final)
// clang-format on
//
// THREAD: the owning engine only.
class LaneLink {
 public:
  // Null while stalled or failed.
  Connection* get() const { return connection_.get(); }
  const absl::Status& status() const { return status_; }
  bool failed() const { return failed_; }
  uint64_t reconnects() const { return attached_ > 1 ? attached_ - 1 : 0; }
  Endpoint local() const { return connection_ ? connection_->local() : Endpoint{}; }
  Endpoint remote() const { return connection_ ? connection_->remote() : Endpoint{}; }

  // Returns false if the lane has failed; closes the connection then.
  bool Attach(std::unique_ptr<Connection> connection) {
    if (failed_) return false;
    connection_ = std::move(connection);
    if (dscp_ != 0) connection_->Mark(dscp_);
    status_ = absl::OkStatus();
    ++attached_;
    return true;
  }

  // Applies to this connection and later ones.
  void Mark(uint8_t dscp) {
    if (dscp == dscp_) return;
    dscp_ = dscp;
    if (connection_ != nullptr) connection_->Mark(dscp);
  }

  // The connection is broken: the lane waits for another.
  void Stall(const absl::Status& why) {
    connection_.reset();
    status_ = absl::UnavailableError(absl::StrCat("lane stalled: ", why.message()));
  }

  // The peer has violated the protocol: the lane accepts nothing more from it.
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    status_ = absl::DataLossError(
        absl::StrCat("lane with ", ToString(remote()),
                     " failed: the peer violated the lane protocol: ", parts...));
    connection_.reset();
    failed_ = true;
  }

 private:
  std::unique_ptr<Connection> connection_;
  absl::Status status_ = absl::UnavailableError("lane stalled: not connected yet");
  uint64_t attached_ = 0;
  uint8_t dscp_ = 0;
  bool failed_ = false;
};

// A slice up to this size is copied when it is posted, and may be copied when it is received. That
// costs less than another system call or a wait for the acknowledgement.
inline constexpr uint32_t kShortSliceBytes = 4096;

class StreamSendLane final : public SendLane {
 public:
  // REQUIRES: shape.slots ≥ 2.
  explicit StreamSendLane(const LaneShape& shape);

  absl::StatusOr<std::optional<SliceNumber>> Post(std::span<const RegionSpan> pieces,
                                                  const SliceTag& tag) override;
  bool has_room() const override { return next_ != credit_ && !link_.failed(); }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override { return source_free_; }
  SliceNumber next() const override { return next_; }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  absl::Status status() const override { return link_.status(); }
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
  // One slice of the window, until it is acknowledged.
  struct Entry {
    wire::SliceHeader header{};
    std::vector<iovec> pieces;  // the header first
    bool copied = false;        // the payload is in short_slices_
  };

  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  void CopyShortSlice(SliceNumber n, std::span<const RegionSpan> pieces);
  bool ReadAcks();
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
  std::vector<std::byte> short_slices_;  // kShortSliceBytes (or slot_bytes) for each entry

  // acknowledged_ ≤ sent_ ≤ next_ ≤ credit_.
  SliceNumber acknowledged_ = 0;
  SliceNumber source_free_ = 0;
  SliceNumber sent_ = 0;       // completely written to the current connection
  SliceNumber ever_sent_ = 0;  // completely written to any connection
  SliceNumber next_ = 0;
  SliceNumber credit_ = 0;
  bool resumed_ = false;  // the current connection's resume frame has arrived
  SendGate* gate_ = nullptr;
  bool gate_blocked_ = false;  // the gate blocked the last attempt to send
  uint64_t acknowledged_bytes_ = 0;

  // Progress of slice sent_: complete pieces, and bytes of the next piece.
  size_t done_pieces_ = 0;
  size_t done_bytes_ = 0;
  std::vector<iovec> gather_;

  std::vector<std::byte> ack_buffer_;
  size_t ack_bytes_ = 0;
};

class StreamRecvLane final : public RecvLane {
 public:
  // REQUIRES: shape.slots ≥ 2; slots.bytes ≥ shape.slots × shape.slot_bytes.
  StreamRecvLane(const LaneShape& shape, const RegionSpan& slots);

  void SetSink(SliceSink* sink) override { sink_ = sink; }
  bool Expect(SliceNumber n, std::span<const RegionSpan> pieces, const SliceTag& tag) override;
  Landing Landed(SliceNumber n) const override;
  const SliceTag& Tag(SliceNumber n) const override;
  uint32_t Bytes(SliceNumber n) const override;
  RegionSpan slots() const override { return slots_; }
  std::optional<SliceTag> OldestTag() const override;
  std::vector<RegionSpan> UnusedSlots() const override;
  void Release(SliceNumber n) override;
  void Mark(uint8_t dscp) override { link_.Mark(dscp); }
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  absl::Status status() const override { return link_.status(); }
  LaneCounters counters() const override;
  Endpoint local() const override { return link_.local(); }
  Endpoint remote() const override { return link_.remote(); }

 private:
  struct Entry {
    wire::SliceHeader header{};
    std::vector<iovec> expected;
    SliceTag expected_tag{};
    uint64_t expected_bytes = 0;
    bool expects = false;
    bool released = false;
    Landing landing = Landing::kNotYet;
  };

  const Entry& At(SliceNumber n) const { return entries_[n % shape_.slots]; }
  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  std::byte* Slot(SliceNumber n) const {
    return slots_.address() + (n % shape_.slots) * size_t{shape_.slot_bytes};
  }
  bool InWindow(SliceNumber n) const { return n >= released_ && n < released_ + shape_.slots; }

  bool ReadSome();
  bool ParseInbox();
  bool TakeHeader();
  void TakePayload(size_t bytes_from_inbox);
  void ChooseLanding();
  bool PlaceBySink(Entry& entry);
  void GatherTargets();
  void Consume(size_t got);
  void Land();
  bool FlushAcks(bool moved);
  bool WriteFrame();
  void StartFrame(uint32_t magic);

  const LaneShape shape_;
  const RegionSpan slots_;
  LaneLink link_;
  SliceSink* sink_ = nullptr;
  std::vector<RegionSpan> sink_pieces_;  // scratch
  std::vector<Entry> entries_;

  // released_ ≤ delivered_ ≤ released_ + slots.
  SliceNumber released_ = 0;   // the smallest number not released
  SliceNumber delivered_ = 0;  // the slice that is arriving, or the next one
  uint64_t landed_bytes_ = 0;

  // The arriving slice: whether its header is complete, its memory, and its progress.
  bool header_here_ = false;
  std::vector<iovec> targets_;
  size_t done_pieces_ = 0;
  size_t done_bytes_ = 0;
  size_t payload_left_ = 0;
  std::vector<iovec> gather_;

  // Bytes read ahead: a header, and short slices after it.
  std::vector<std::byte> inbox_;
  size_t inbox_begin_ = 0;
  size_t inbox_end_ = 0;

  // The state that the sender knows, and the frame being sent to it.
  SliceNumber sent_delivered_ = 0;
  SliceNumber sent_credit_ = 0;
  wire::AckFrame frame_{};
  size_t frame_left_ = 0;
};

class StreamTransport final : public Transport {
 public:
  std::unique_ptr<SendLane> MakeSendLane(const LaneShape& shape) override {
    return std::make_unique<StreamSendLane>(shape);
  }
  std::unique_ptr<RecvLane> MakeRecvLane(const LaneShape& shape, const RegionSpan& slots) override {
    return std::make_unique<StreamRecvLane>(shape, slots);
  }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_STREAM_LANE_H_
