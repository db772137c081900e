// A lane: one direction between two hosts on one channel. A numbered sequence of slices over a
// connection that can be replaced.
//
//   sender                                         receiver
//   Post(slice n) ─── header {n, tag}, payload ──► slot n mod slots, or the memory of Expect(n)
//   acknowledged  ◄── ack {delivered, credit} ──── Release(n) frees the slot
//
// Slices are numbered from 0 and delivered in order. The sender may be ahead of the receiver's
// Release by `slots` slices, so there is always memory for a slice, and lanes cannot block each
// other. A slice's payload is at most `slot_bytes`. Both ends must have the same LaneShape.
//
// A tag travels only when it differs from that of the slice before: once per operation.
//
// A transport that writes straight into the peer's memory must know the place of a slice before it
// sends it. The receiver's Expect and ExpectInSlot tell; after WaitForPlaces the sender waits for
// them.
//
// Attach() replaces a broken connection: the receiver sends the number of the last slice delivered,
// and the sender continues from there. Until then the lane is stalled, not failed; its owner
// decides on the timeout. lane_state.h has the states.
//
// Lanes with equal SharedQueueKeys may use the same connections and queues (lane_identity.h). A
// lane's credit, its receiver and its end never delay the others.
//
// An engine may sleep once Poll has returned false on each of its lanes since the last Post,
// Release, Acknowledge, Expect or Attach. Later work is triggered by an event of the network, by
// the opening of a gate that blocks a lane, or by a deferred acknowledgement.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_H_
#define MCCS_SERVICE_TRANSPORT_LANE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ready_list.h"
#include "service/device/lane_shape.h"
#include "service/device/region.h"
#include "service/transport/lane_identity.h"
#include "service/transport/lane_state.h"
#include "service/transport/network.h"

namespace mccs {

// Limits how much a lane may send to its connection now. The executor posts as far as credit allows
// and is not affected; blocked slices wait in the lane.
//
// THREAD: the owning engine only. Never blocks.
class SendGate {
 public:
  virtual ~SendGate() = default;
  // Payload bytes that may be sent now; 0: none, and the owner of the gate knows when to retry.
  // Called only by a lane that has data and could send it.
  virtual uint64_t Allowance() = 0;
  // The lane's own rate limit, in bit/s of payload; 0: none.
  virtual uint64_t rate_bps() const { return 0; }
  // `bytes` have been sent. A lane that sends whole slices may exceed the allowance by one slice.
  virtual void Sent(uint64_t bytes) = 0;

  struct Turn {
    bool held = false;    // the last Allowance of this turn was 0
    bool unsent = false;  // some slices have not been sent
    // Some bytes are sent and not acknowledged, other than those of slices that the lane has
    // copied.
    bool in_flight = false;
  };
  // Reports the state at the end of each of the lane's turns.
  virtual void OnTurnEnd(const Turn& turn) = 0;
};

// Position in a lane's sequence.
using SliceNumber = uint64_t;

// Bytes of the slice's header that only the executor interprets: they identify the operation of the
// slice.
using SliceTag = std::array<std::byte, 32>;

// Counters since the creation of the lane, for mccsctl and metrics.
struct LaneCounters {
  uint64_t slices = 0;
  uint64_t payload_bytes = 0;
  uint64_t reconnects = 0;
  // Payload that a processor has copied on this end, or must copy because it is in its slot and not
  // where it was expected.
  uint64_t copied_bytes = 0;
  // Current value. Sender: slices that may still be posted; receiver: free slots.
  uint64_t credit = 0;
};

// The reason why a lane does not send.
enum class LaneWait : uint8_t {
  kNothing,     // it has nothing to send
  kCredit,      // all slots at the receiver are in use, or it has not given a place yet
  kRate,        // its gate blocks it: rates, send windows, priority classes
  kConnection,  // the connection accepts no more bytes now, or there is none
};

// The interface that both ends of a lane have.
class LaneEnd {
 public:
  virtual ~LaneEnd() = default;

  // Moves bytes: a sender's payload, as far as the gate allows, or a receiver's acknowledgements.
  // Returns true if any moved or the status changed.
  virtual bool Poll() = 0;

  // The queues that the lane uses from the next Attach on; initially LaneIdentity::queues.
  void SetQueues(SharedQueueKey queues) { queues_ = std::move(queues); }
  const SharedQueueKey& queues() const { return queues_; }

  // Gives the lane its (next) connection, already authenticated. Unfinished slices are sent again.
  // A transport with queues of its own uses it to exchange their addresses and keys.
  virtual void Attach(std::unique_ptr<Connection> connection) = 0;
  // Whether the lane itself can read (a sender) or write (a receiver) the memory of a region. OK:
  // it can on its present route, as long as the result is held. kUnavailable: not known yet; the
  // lane's poller is woken when it is. kUnimplemented: no lane of this kind can. Others: it cannot,
  // and why. Then slices in the region are a mistake of the caller, unless the daemon has mapped
  // it.
  // LIFETIME: the region, as for slices (Transport::Forget).
  virtual absl::StatusOr<std::shared_ptr<const void>> Reach(const Region& region) {
    if (region.is_mapped()) return nullptr;
    return absl::UnimplementedError("a stream does not reach memory on a GPU");
  }
  // Two lanes with the same one get the same results of Reach now, which share what they hold.
  // Never followed.
  virtual const void* reach_domain() const { return nullptr; }
  // Sets the DSCP of this and all later connections (Connection::Mark).
  virtual void Mark(uint8_t dscp) = 0;

  // OK while connected; kUnavailable while stalled, with the reason; other errors are final
  // (LaneState::kFailed).
  virtual absl::Status status() const = 0;
  virtual LaneState state() const = 0;
  // The connection works: the ends have exchanged their state over it, and over its queue pair
  // something has passed.
  virtual bool works() const { return state() == LaneState::kReady; }

  virtual LaneCounters counters() const = 0;
  // Of a lane over RDMA that is connected.
  virtual std::optional<QueuePairState> queue_pair() const { return std::nullopt; }
  // The current addresses; empty hosts while stalled.
  virtual Endpoint local() const = 0;
  virtual Endpoint remote() const = 0;

  // Bytes of slices written to and read from its connections so far.
  uint64_t moved_bytes() const { return moved_bytes_; }

  // The turns of a lane that is polled on request, and of its user. The user calls RequestPoll
  // after it has posted or released slices or set a sink; the one that polls calls NotifyUser
  // after a Poll that moved something. Null: none. LIFETIME: until replaced.
  void SetPoller(ReadyList::Member* poller) { poller_ = poller; }
  void SetUser(ReadyList::Member* user) { user_ = user; }
  void RequestPoll() { List(poller_); }
  void NotifyUser() { List(user_); }

 protected:
  void CountMoved(size_t bytes) { moved_bytes_ += bytes; }
  // The lane has work, outside of its user's turn.
  void WakePoller() {
    if (poller_ != nullptr) poller_->Wake();
  }

 private:
  static void List(ReadyList::Member* member) {
    if (member != nullptr) member->List();
  }

  SharedQueueKey queues_;
  uint64_t moved_bytes_ = 0;
  ReadyList::Member* poller_ = nullptr;
  ReadyList::Member* user_ = nullptr;
};

// How long the owner of a RecvLane may leave an acknowledgement deferred.
inline constexpr int64_t kMaxAcknowledgementDelayNs = kNsPerMs;

// A lane's Poll ends when it has moved this much, at the end of a system call, so that other lanes
// and tenants get their turns.
inline constexpr uint64_t kMaxBytesPerPoll = 1 << 20;

class SendLane : public LaneEnd {
 public:
  // Sends `payload` (may be empty) as the next slice and returns its number; nothing if there is no
  // credit.
  // LIFETIME: the memory stays valid and unchanged until source_free() exceeds the number, or the
  // lane is destroyed. Its region: until Transport::Forget.
  // kInvalidArgument: the slice is too long, or in memory that the lane can never reach. A failed
  // lane returns its status; a stalled lane accepts slices as long as it has credit.
  virtual absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                          const SliceTag& tag) = 0;
  // The receiver's owner calls Expect or ExpectInSlot for each slice. So the lane may keep a slice
  // until it knows the place of it, if that saves a copy.
  virtual void WaitForPlaces() {}

  // Whether Post would accept a valid slice. Cheap.
  virtual bool has_room() const = 0;

  // All slices with smaller numbers have been delivered; their sources are free.
  virtual SliceNumber acknowledged() const = 0;

  // The sources of all slices with smaller numbers are free: they were delivered, or the lane has
  // copied them (short slices). acknowledged() ≤ source_free() ≤ next(). An operation may complete
  // on this; use acknowledged() only if the peer must have the data.
  virtual SliceNumber source_free() const = 0;

  // The number of the next Post.
  virtual SliceNumber next() const = 0;

  // Sets the gate that limits sending; null: only the connection limits it.
  // LIFETIME: the gate, until it is replaced or the lane is destroyed.
  virtual void SetGate(SendGate* gate) = 0;
  // As of the last Poll.
  virtual LaneWait waits_for() const = 0;
};

enum class Landing : uint8_t {
  kNotYet,
  kInSlot,     // in its slot, or without payload
  kDirect,     // in the memory of Expect(n), or of the sink
  kDiscarded,  // nowhere: there are no slots, and the sink gave no memory
};

// Chooses the memory for slices without an Expect(), because their sender chose their order.
class SliceSink {
 public:
  virtual ~SliceSink() = default;
  // Chooses the memory, of `bytes` bytes (may be 0), for the payload of slice `n`. Nothing: the
  // slice uses its slot. Called within RecvLane::Poll() in the order of numbers, also for slices
  // behind one that has not landed; called again for slices that are resent on another connection.
  // LIFETIME: the memory until the slice has landed or the lane is destroyed.
  virtual std::optional<RegionSpan> FindDestination(SliceNumber n, const SliceTag& tag,
                                                    uint32_t bytes) = 0;
};

class RecvLane : public LaneEnd {
 public:
  // Sets the sink for slices without an Expect(). Null: they land in their slots.
  // LIFETIME: the sink, until it is replaced or the lane is destroyed.
  virtual void SetSink(SliceSink* sink) = 0;

  // Sets the memory for the payload of slice `n`, instead of its slot. Returns true if no byte of
  // the payload has arrived yet. Otherwise returns false: the slice lands in its slot and the
  // caller copies it; also for a slice beyond the window of slots. A later Expect of the same slice
  // replaces an earlier one, or returns false and does not change it. Direct landing requires that
  // the header's tag equals `tag` and that the length is that of `memory`. Otherwise the slice
  // lands in its slot, where the owner detects the difference. It does so, too, if the lane does
  // not reach the memory. LIFETIME: the memory until Landed(n) ≠ kNotYet or the lane is destroyed.
  virtual bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) = 0;
  // Slice `n` stays in its slot (SendLane::WaitForPlaces).
  virtual void ExpectInSlot(SliceNumber /*n*/) {}

  // Whether and where slice `n` has landed. Slices land in the order of their numbers.
  // REQUIRES: n not released yet.
  virtual Landing Landed(SliceNumber n) const = 0;

  // REQUIRES: Landed(n) ≠ kNotYet and n not released.
  virtual const SliceTag& Tag(SliceNumber n) const = 0;
  virtual uint32_t Bytes(SliceNumber n) const = 0;
  // The memory of all slots: slice n uses the slot n mod slots. Another slice may use it after n is
  // released. Empty: the lane has no slots (Transport::MakeRecvLane).
  virtual RegionSpan slots() const = 0;

  // Tag of the oldest slice that was not released, and has landed or waits for memory (see
  // MakeRecvLane). An owner that expects no slice detects by it that one has arrived.
  virtual std::optional<SliceTag> OldestTag() const = 0;

  // Slots that contain no slice and receive none: their contents are not needed.
  virtual std::vector<RegionSpan> UnusedSlots() const = 0;

  // The owner does not need slice `n` any more. Any order within the window of slots; the sender's
  // credit follows the smallest number not released (the next Poll sends it).
  // REQUIRES: Landed(n) ≠ kNotYet and n not released.
  virtual void Release(SliceNumber n) = 0;

  // Slices have landed that are not acknowledged, and the sender does not wait for it: it has
  // copied them. A later acknowledgement includes them. The owner calls Acknowledge within
  // kMaxAcknowledgementDelayNs. Until then the sender counts the slices as not delivered.
  virtual bool defers_acknowledgement() const = 0;
  // The next Poll acknowledges all slices that have landed.
  virtual void Acknowledge() = 0;
};

// Of the devices of a transport.
struct TransportCounters {
  uint64_t devices = 0;
  uint64_t queue_pairs = 0;
  uint64_t registered_regions = 0;
  uint64_t registered_bytes = 0;
  // Since it was created.
  uint64_t requests = 0;
  uint64_t completions = 0;
  uint64_t receives = 0;
  uint64_t refills = 0;
};

// Makes lanes of one kind: stream_lane.h has those over byte streams, rdma/rdma_lane.h those over
// RDMA.
//
// LIFETIME: outlives its lanes.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<SendLane> MakeSendLane(const LaneIdentity& identity,
                                                 const LaneShape& shape) = 0;
  // `slots`: shape.slots × shape.slot_bytes of memory that outlives the lane (Device::Allocate), or
  // empty for a lane that only receives in place. Then a slice lands in the memory of its Expect.
  // Without one, it waits in the connection; if there is a sink, which gives it no memory, it is
  // discarded.
  virtual std::unique_ptr<RecvLane> MakeRecvLane(const LaneIdentity& identity,
                                                 const LaneShape& shape,
                                                 const RegionSpan& slots) = 0;

  // A region that lanes have used is about to end. Ends all access of NICs and peers to it, then
  // destroys `token`, in this call or in Poll. REQUIRES: no slice of a lane uses it any more, or
  // the lane has been destroyed.
  virtual void Forget(const Region& /*region*/, std::shared_ptr<void> token) { token.reset(); }
  // Why no lane reaches memory on a GPU, and the remedy; empty: NICs can register it.
  virtual std::string WhyNotOnGpus() const { return "lanes use TCP"; }
  // Addresses of the NICs where lanes may end; empty: any of the host's.
  virtual std::vector<std::string> Addresses() const { return {}; }
  // False: all its devices have failed, for good.
  virtual bool works() const { return true; }
  // The memory of slots and of sources stays with the NIC while a lane exists: its pages must not
  // be returned to the kernel.
  virtual bool pins_memory() const { return false; }

  // Handles what concerns several lanes; once per turn of the engine, before the lanes' own Poll.
  // Returns true if there was anything.
  virtual bool Poll() { return false; }
  // The time at which Poll has work even if nothing arrives.
  virtual MonotonicNs NextDeadline() const { return kNever; }
  virtual TransportCounters counters() const { return {}; }
  // Before a sleep of the engine: what happens from now on wakes it. Returns true if there is work.
  virtual bool PrepareSleep() { return false; }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_H_
