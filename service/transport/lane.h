// A lane: one direction between two hosts on one channel. A numbered sequence of slices over a
// connection that can be replaced.
//
//   sender                                         receiver
//   Post(slice n) ─── header {n, tag}, payload ──► slot n mod slots, or where Expect(n) said
//   acknowledged  ◄── ack {delivered, credit} ──── Release(n) gives the slot back
//
// Slices are numbered from 0 and delivered in order. The sender may be ahead of the receiver's
// Release by `slots` slices, so a slice always has a place to land, and lanes cannot block each
// other. A slice's payload is at most `slot_bytes`. Both ends must be made with the same LaneShape.
//
// A connection that breaks is replaced with Attach(): the ends tell each other the last slice
// delivered and go on from there. Until then the lane is stalled, not failed; whoever owns the lane
// decides how long that may last.
//
// An engine may sleep once Poll has returned false on each of its lanes since the last Post,
// Release or Attach: what is due later comes with an event of the network, or when a gate that
// holds a lane back opens.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_H_
#define MCCS_SERVICE_TRANSPORT_LANE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/network.h"
#include "service/transport/send_gate.h"

namespace mccs {

// Position in a lane's sequence.
using SliceNumber = uint64_t;

// Bytes that travel in the slice's header and mean something to the executor only: which operation
// the slice belongs to.
using SliceTag = std::array<std::byte, 32>;

struct LaneShape {
  uint32_t slots = 0;       // ≥ 2
  uint32_t slot_bytes = 0;  // payload of one slice at most

  friend bool operator==(const LaneShape&, const LaneShape&) = default;
};

struct ConstMemRef {
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

struct MemRef {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

inline constexpr size_t kMaxSlicePieces = 128;

// Counters since the lane was made, for mccsctl and metrics.
struct LaneCounters {
  uint64_t slices = 0;
  uint64_t payload_bytes = 0;
  uint64_t reconnects = 0;
  // Now. A sender: slices that may still be posted; a receiver: slots that are free.
  uint64_t credit = 0;
};

// What keeps a lane from sending.
enum class LaneWait : uint8_t {
  kNothing,     // it has nothing to send
  kCredit,      // all slots at the receiver are taken, and all that fills them has gone out
  kGate,        // the gate holds it back
  kConnection,  // the connection takes no more now, or there is none
};

class SendLane {
 public:
  virtual ~SendLane() = default;

  // Sends the concatenation of `pieces` (≤ kMaxSlicePieces, may be empty) as the next slice and
  // returns its number; nothing when there is no credit or the queue is full.
  // LIFETIME: what the pieces point to stays valid and unchanged until source_free() passes the
  // number, or the lane is gone. The span itself is copied.
  // A slice that can never be sent (too long, too many pieces) is kInvalidArgument; a failed lane
  // answers with its status; a stalled lane takes slices as far as its credit goes.
  virtual absl::StatusOr<std::optional<SliceNumber>> Post(std::span<const ConstMemRef> pieces,
                                                          const SliceTag& tag) = 0;

  // Whether Post would take a slice that can be sent. Cheap, unlike gathering pieces in vain.
  virtual bool has_room() const = 0;

  // All slices with smaller numbers have been delivered; their sources are free.
  virtual SliceNumber acknowledged() const = 0;

  // The sources of all slices with smaller numbers are free: they were delivered, or the lane has a
  // copy of its own (short slices). acknowledged() ≤ source_free() ≤ next(). An operation may end
  // on this; on acknowledged() only what must know that the peer has the data.
  virtual SliceNumber source_free() const = 0;

  // The number that the next Post gets.
  virtual SliceNumber next() const = 0;

  // Moves bytes, as far as the gate allows. True when any moved or the status changed.
  virtual bool Poll() = 0;

  // Who is asked from now on how much may be sent; null: as much as the connection takes.
  // LIFETIME: the gate, until another takes its place or the lane is gone.
  virtual void SetGate(SendGate* gate) = 0;
  // What packets of this and all later connections bear from now on (Connection::Mark).
  virtual void Mark(uint8_t dscp) = 0;
  // After the last Poll.
  virtual LaneWait waits_for() const = 0;

  // Gives the lane its (next) connection, already authenticated. Unfinished slices go out again.
  virtual void Attach(std::unique_ptr<Connection> connection) = 0;

  // OK while connected; kUnavailable while stalled, with the reason; anything else sticks (a peer
  // that breaks the protocol).
  virtual absl::Status status() const = 0;

  virtual LaneCounters counters() const = 0;
  // The 5-tuple's ends now; empty hosts while stalled.
  virtual Endpoint local() const = 0;
  virtual Endpoint remote() const = 0;
};

enum class Landing : uint8_t {
  kNotYet,
  kInSlot,  // in Slot(n), pieces one behind the other
  kDirect,  // where Expect(n) said
};

// Says where slices go that nobody expects by their number, because their sender chose their order.
class SliceSink {
 public:
  virtual ~SliceSink() = default;
  // Where the payload of a slice with this tag shall land: fills `pieces`, of `bytes` in all.
  // False: in its slot. Asked from within RecvLane::Poll(); once more for a slice that a broken
  // connection brings a second time. LIFETIME: the memory until the slice has landed or the lane is
  // gone.
  virtual bool Place(const SliceTag& tag, uint32_t bytes, std::vector<MemRef>& pieces) = 0;
};

class RecvLane {
 public:
  virtual ~RecvLane() = default;

  // From now on `sink` is asked for slices without an Expect(). Null: they go to their slots.
  // LIFETIME: the sink, until it is taken away or the lane is gone.
  virtual void SetSink(SliceSink* sink) = 0;

  // Says where the payload of slice `n` shall go instead of its slot. Taken if not a byte of its
  // payload has arrived yet, else false: the slice lands (or landed) in its slot and the caller
  // copies; false also for a slice beyond the window of slots and for more than kMaxSlicePieces. A
  // later Expect of the same slice takes the place of an earlier one, or is refused and leaves it.
  // Direct landing happens only if the header's tag equals `tag` and the length is the sum of the
  // pieces; otherwise the slice goes to its slot, where the owner finds the difference. LIFETIME:
  // the memory until Landed(n) ≠ kNotYet or the lane is gone. The span is copied.
  virtual bool Expect(SliceNumber n, std::span<const MemRef> pieces, const SliceTag& tag) = 0;

  // What has become of slice `n`. Slices land in the order of their numbers.
  // REQUIRES: n not released yet.
  virtual Landing Landed(SliceNumber n) const = 0;

  // REQUIRES: Landed(n) ≠ kNotYet and n not released.
  virtual const SliceTag& Tag(SliceNumber n) const = 0;
  virtual uint32_t Bytes(SliceNumber n) const = 0;
  // Where slice n lands when it lands in its slot. REQUIRES: n not released.
  virtual std::byte* Slot(SliceNumber n) const = 0;

  // Of the oldest slice that has landed and was not released: whoever waits for none here can see
  // whether one came all the same.
  virtual std::optional<SliceTag> OldestTag() const = 0;

  // Slots in which no slice lies or is arriving: what is in them is of no use to anybody.
  virtual std::vector<MemRef> UnusedSlots() const = 0;

  // The owner has no more use for slice `n`. In any order within the window of slots; the sender's
  // credit grows with the smallest number not released (the next Poll tells it).
  // REQUIRES: Landed(n) ≠ kNotYet and n not released.
  virtual void Release(SliceNumber n) = 0;

  // As SendLane's. What it marks are acknowledgements.
  virtual void Mark(uint8_t dscp) = 0;
  virtual bool Poll() = 0;
  virtual void Attach(std::unique_ptr<Connection> connection) = 0;
  virtual absl::Status status() const = 0;
  virtual LaneCounters counters() const = 0;
  virtual Endpoint local() const = 0;
  virtual Endpoint remote() const = 0;
};

// How lanes of one kind are made: over sockets, over queue pairs.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<SendLane> MakeSendLane(const LaneShape& shape) = 0;
  // `slots` is shape.slots × shape.slot_bytes of memory that outlives the lane (Device::Allocate).
  virtual std::unique_ptr<RecvLane> MakeRecvLane(const LaneShape& shape, MemRef slots) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_H_
