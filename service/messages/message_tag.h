// What slices between two hosts say of the sends, receives and puts that they serve.
//
// Slices of one lane belong to many pairs of ranks, in the order in which their sender found
// something to do. A payload is sent only after the receive that it goes to was announced: so every
// slice has a place to land, and a pair whose receive is late holds up no other.
//
//   host of the receiver                         host of the sender
//   ncclRecv ── kAnnouncement{call} ───────────►
//                                   ◄─────────── kPayload{offset}, bytes … ── ncclSend
//
// One-sided calls have no receive: their payload goes into a window (peer_puts.h).
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

// Who sends to whom. Messages of a pair are numbered from 1 in the order of the calls, the sends by
// the source's host and the receives by the destination's: equal numbers meet.
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
    kPut = 3,        // bytes for a window, and more to come
    kSignal = 4,     // a signal, and the last bytes of its put, if any
    kAskWindow = 5,  // an empty slice to the host of the window
    kWindow = 6,     // its answer: an empty slice with the question's pair and number
  };

  Kind kind = Kind::kAnnouncement;
  DataType type = DataType::kInt8;  // of the announced call
  RankPair pair;
  uint32_t signal = 0;  // kSignal: SignalNumber
  uint64_t number = 0;  // of the message; kPut and below: of the window
  // Announcement: elements of the call; payload: bytes that lie before it; kPut, kSignal: the same,
  // from the window's beginning; kWindow: bytes of the window.
  uint64_t amount = 0;
};

SliceTag ToTag(const MessageTag& message);
// What a peer sent: any value may stand in any field.
MessageTag MessageFromTag(const SliceTag& tag);

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_TAG_H_
