// Sends, receives and one-sided calls between two ranks, and the slices that carry them.
#ifndef MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_
#define MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/ids.h"
#include "proto/operation.h"
#include "service/communicator/links/rank_port.h"
#include "service/transport/lane.h"

namespace mccs {

// An ordered pair of ranks. Messages of a pair are numbered from 1 in the order of the calls: sends
// by the source's host, receives by the destination's host. Equal numbers match.
struct RankPair {
  Rank source;
  Rank destination;
  friend bool operator==(const RankPair&, const RankPair&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RankPair& pair) {
    return H::combine(std::move(h), pair.source, pair.destination);
  }
};

// The tag of slices between two hosts for the sends, receives and puts that they carry.
//
// Slices of one lane belong to many pairs of ranks, in the order in which the sender has work. A
// payload is sent only after its receive was announced. So every slice has a destination, and a
// late receive does not block other pairs. The payload of a long message uses several lanes
// (striping.h).
//
//   host of the receiver                         host of the sender
//   ncclRecv ── kAnnouncement{call, stripes} ──►
//                                   ◄─────────── kPayload{offset}, bytes … ── ncclSend
//
// One-sided calls have no receive: their payload goes into an RMA window (peer_puts.h).
//
//   0      1      2         4        8             12       16       24       32
//   | kind | type | stripes | source | destination | signal | number | amount |
struct MessageTag {
  enum class Kind : uint8_t {
    kAnnouncement = 1,
    kPayload = 2,
    kPut = 3,            // bytes for an RMA window; more follow
    kSignal = 4,         // a signal, and the last bytes of its put, if any
    kWindowRequest = 5,  // an empty slice to the host of the window
    kWindowReply = 6,    // the reply: an empty slice with the request's pair and number
  };

  Kind kind = Kind::kAnnouncement;
  DataType type = DataType::kInt8;  // of the announced call
  uint16_t stripes = 1;             // kAnnouncement: number of lanes that the payload uses
  RankPair pair;
  uint32_t signal = 0;  // kSignal: SignalNumber
  uint64_t number = 0;  // of the message; from kPut on: of the window
  // Announcement: elements of the call. Payload: offset in bytes. kPut, kSignal: offset in the
  // window in bytes. kWindowReply: size of the window in bytes.
  uint64_t amount = 0;
};

SliceTag ToTag(const MessageTag& message);
// Converts a peer's tag: fields are unchecked.
MessageTag MessageFromTag(const SliceTag& tag);
// The error for a slice of the peer that violates the protocol.
absl::Status ProtocolError(const MessageTag& tag, std::string_view what);

// One send, receive or one-sided call of a local rank, from its call to its completion.
struct OpenMessage {
  const PostedMessage* call = nullptr;
  MessagePort* port = nullptr;  // of the calling rank
  RankPair pair;
  uint64_t number = 0;  // within its pair, among the calls of its kind

  uint64_t bytes() const { return call->bytes(); }
  const RegionSpan& memory() const { return call->memory; }
  // The calling rank, and the other one.
  bool by_source() const {
    return call->kind != OpKind::kRecv && call->kind != OpKind::kWaitSignal;
  }
  Rank caller() const { return by_source() ? pair.source : pair.destination; }
  Rank other() const { return by_source() ? pair.destination : pair.source; }
};

// The other end's call, as known here.
struct PeerCall {
  DataType type = DataType::kInt8;
  uint64_t count = 0;
  int stripes = 1;
};

// "send #3 of rank 0 to rank 2 count 1024 type float32", "signal #1 of rank 0 to rank 2".
std::string Describe(const OpenMessage& message);

// OK if a matched send and receive have the same number of bytes; types may differ, as in NCCL.
// Else kFailedPrecondition with both calls. `ours`: either end.
absl::Status CheckMatch(const OpenMessage& ours, const PeerCall& theirs);

// Calls that one rank has posted so far with `peer` at the other end.
struct MessageCount {
  Rank peer;
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t signals = 0;  // including those of puts
};

// The pairs with `rank` at one end, in an index of pairs by that end.
std::span<const RankPair> PairsOf(const absl::flat_hash_map<Rank, std::vector<RankPair>>& index,
                                  Rank rank);

// The entry of `peer`; null if there is none. REQUIRES: `counts` is in ascending order of peers.
const MessageCount* CountWith(Rank peer, const std::vector<MessageCount>& counts);

// A put whose data is on this host and waits to be copied by the process of its window's rank.
struct UncopiedPut {
  RankPair pair;
  uint64_t window = 0;
  uint64_t part = 0;    // tells the parts of the pair's puts apart
  int64_t process = 0;  // pid
};

// A slice that has arrived, or whose payload is about to.
struct ArrivingSlice {
  int lane = 0;            // message lane
  SliceNumber number = 0;  // on that lane
  MessageTag tag = {};
  uint32_t bytes = 0;
  Landing landing = Landing::kInSlot;  // if it has arrived
  bool again = false;                  // it had a destination before its connection broke
  RecvLane* receive = nullptr;         // on which it arrives; null: it has arrived
};

// The stripes of one outgoing message.
struct OpenStripes {
  int all = 1;
  int unfinished = 1;  // that the peer has not acknowledged
};

// The part of a call's payload that uses one lane, and may be sent: slices at equal distances.
struct Transfer {
  OpenMessage message;
  uint64_t offset = 0;  // of the next slice
  uint64_t stride = 0;  // bytes to the slice after it; at least the maximum of a slice
  std::shared_ptr<OpenStripes> stripes = nullptr;  // null: it has one
};

// Queued slices of one message lane: for messages, and for puts.
struct Outbox {
  std::deque<MessageTag> announcements;  // empty slices, which the other host waits for
  std::deque<Transfer> transfers;        // the next one in front
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_
