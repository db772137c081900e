// The tag of slices between two hosts for the sends, receives and puts that they carry.
//
// Slices of one lane belong to many pairs of ranks, in the order in which the sender has work. A
// payload is sent only after its receive was announced. So every slice has a destination, and a
// late receive does not block other pairs.
//
//   host of the receiver                         host of the sender
//   ncclRecv ── kAnnouncement{call} ───────────►
//                                   ◄─────────── kPayload{offset}, bytes … ── ncclSend
//
// One-sided calls have no receive: their payload goes into an RMA window (peer_puts.h).
//
//   0      1      2  4        8             12       16       24       32
//   | kind | type | 0 | source | destination | signal | number | amount |
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_TAG_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_TAG_H_

#include <cstdint>
#include <utility>

#include "base/ids.h"
#include "proto/operation.h"
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

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_TAG_H_
