// The protocol between the ends of a lane over RDMA. Little-endian, no padding.
//
// Over the lane's authenticated stream, on each connection, until the lane is ready:
//
//   sender                                        receiver
//   hello {from which slice on, source port} ────►
//          ◄──────────────────────────────────── hello {delivered, credit, slots}
//   then the end with the smaller GID, or the sender if they are equal (the "maker"):
//   offer {queue pair} ─────────────────────────►  a new queue pair, or one that lanes between the
//          ◄───────────────────────────── accept   two use already; or gone: offer another. Both
//                                                  prove that they have its name (pair_proof.h)
//   go ──────────────────────────────────────────► for a new one: the maker has connected it
//
// A receiver that loses the queue pair later sends gone and closes the stream. Then they connect
// again.
//
// Over the queue pair, in order: slices as writes with an immediate value, and messages.
//
//   immediate:  31    24 23         8  7   6     0
//              | return | lane       | P | slice  |   P: in the place that the receiver gave;
//                                                     slice: number mod 128
//
// `return`: receives that the sender of the value has consumed and refilled; its peer may post as
// many more. The lane number is that of the receiver of the value or message. A tag travels in a
// message of its own before the slice, when it differs from that of the slice before.
//
// With its credit, the receiver gives places of slices that it expects: addresses of the tenant's
// memory, or their slots. A sender that has no place uses the slot.
//
// A lane without slots announces each slice with its tag and length. The receiver gives a place for
// it, or discards it; the payload follows.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_WIRE_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_WIRE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "service/transport/handshake.h"
#include "service/transport/lane.h"
#include "service/transport/rdma/verbs.h"

namespace mccs::wire {

static_assert(std::endian::native == std::endian::little);

// ---- Over the stream ----------------------------------------------------------------------------

inline constexpr uint32_t kLaneHelloMagic = 0x48'52'43'4d;   // "MCRH"
inline constexpr uint32_t kPairOfferMagic = 0x4f'52'43'4d;   // "MCRO"
inline constexpr uint32_t kPairAcceptMagic = 0x41'52'43'4d;  // "MCRA"
inline constexpr uint32_t kPairGoMagic = 0x47'52'43'4d;      // "MCRG"
inline constexpr uint32_t kPairGoneMagic = 0x58'52'43'4d;    // "MCRX"

inline constexpr uint16_t kRdmaLaneVersion = 2;

inline constexpr size_t kLaneFrameBytes = 96;
using LaneFrame = std::array<std::byte, kLaneFrameBytes>;

// A queue pair's name, random: a secret of its two ends. pair_proof.h has the others.
using PairName = std::array<uint8_t, 16>;
using PairId = std::array<uint8_t, 16>;
using PairProof = std::array<uint8_t, 16>;

struct LaneHello {
  uint32_t magic;
  uint16_t version;
  uint16_t source_port;  // sender: requested for its packets; 0: any. Receiver: 0
  uint32_t slots;        // the lane's shape
  uint32_t slot_bytes;
  uint32_t has_slots;  // receiver: 0 if it only receives in place, else 1. Sender: 0
  // Sender: 1 if its queue pair of the last connection failed, so that the receiver stops its own
  // before it counts the slices; else 0. Receiver: 0.
  uint32_t pair_failed;
  uint64_t number;  // slices delivered; of the sender: as far as it knows
  uint64_t credit;  // receiver: slices with smaller numbers may be sent
  uint32_t
      unplaced_bytes;     // receiver: longer slices wait for their places, if its owner gives them
  uint8_t traffic_class;  // of the end's queues: SharedQueueKey
  uint8_t ip_traffic_class;
  uint16_t reserved;
  Gid gid;
  PairProof failure;  // with pair_failed: FailureProof
  Nonce nonce;        // random
};
static_assert(sizeof(LaneHello) == kLaneFrameBytes && std::is_trivially_copyable_v<LaneHello>);

struct PairFrame {
  uint32_t magic;  // offer, accept, gone or go
  uint32_t queue_pair;
  uint32_t first_packet;
  uint16_t mtu_bytes;
  uint16_t lid;
  Gid gid;
  PairId pair;         // offer of a new queue pair: its name, which is sent once; else IdOf(name)
  uint32_t lane;       // its number at the end that sends the frame
  uint32_t receives;   // entries that the peer may use at first
  uint64_t connected;  // offer: 1 if the maker's end is connected already, else 0
  PairProof proof;     // FrameProof. Gone: FailureProof, or nothing if the queue pair is unknown
  std::array<uint64_t, 2> rest;
};
static_assert(sizeof(PairFrame) == kLaneFrameBytes && std::is_trivially_copyable_v<PairFrame>);

inline QueuePairAddress AddressIn(const PairFrame& frame) {
  return {.number = QueuePairNumber(frame.queue_pair),
          .first_packet = frame.first_packet,
          .gid = frame.gid,
          .lid = frame.lid,
          .mtu_bytes = frame.mtu_bytes};
}

// ---- Over the queue pair ------------------------------------------------------------------------

struct ImmediateFields {
  uint8_t returned = 0;
  uint16_t lane = 0;
  bool placed = false;
  uint8_t slice = 0;  // number mod kSliceModulus
};
inline constexpr uint32_t kSliceModulus = 128;

constexpr uint32_t PackImmediate(const ImmediateFields& fields) {
  return uint32_t{fields.returned} << 24 | uint32_t{fields.lane} << 8 |
         (fields.placed ? 0x80u : 0u) | (fields.slice & 0x7fu);
}
constexpr ImmediateFields UnpackImmediate(uint32_t value) {
  return {.returned = static_cast<uint8_t>(value >> 24),
          .lane = static_cast<uint16_t>(value >> 8),
          .placed = (value & 0x80) != 0,
          .slice = static_cast<uint8_t>(value & 0x7f)};
}

enum class PairMessageKind : uint8_t {
  kReturn = 1,  // only returns receives
  // To the receiver of a lane:
  kTag,       // number, tag: of the next slice
  kAnnounce,  // number, bytes, tag: a slice for a lane without slots; key: 1 if it needs a place
  // To the sender of a lane:
  kSlots,   // address, key: of the memory of all slots, or 0
  kCredit,  // CreditMessage
};

struct PairMessage {
  PairMessageKind kind;
  uint8_t returned;
  uint16_t lane;
  uint32_t key;
  uint64_t number;
  uint64_t bytes;
  uint64_t address;
  SliceTag tag;
};
static_assert(sizeof(PairMessage) == kMessageBytes && offsetof(PairMessage, tag) == 32 &&
              std::is_trivially_copyable_v<PairMessage>);

// Credit, and the places of up to kPlacesPerMessage successive slices of one operation and length.
inline constexpr size_t kPlacesPerMessage = 4;
struct CreditMessage {
  PairMessageKind kind;
  uint8_t returned;
  uint16_t lane;
  uint32_t key;        // of the places
  uint64_t delivered;  // slices with smaller numbers have landed
  uint16_t credit;     // that many slices from `delivered` on may be sent
  uint16_t first;      // the places are of slice `delivered` + `first` and its successors
  uint16_t places;     // number of places
  uint16_t reserved;
  uint32_t tag_check;                                 // of the tag that the slices must have
  uint32_t bytes;                                     // of each slice
  std::array<uint64_t, kPlacesPerMessage> addresses;  // 0: its slot; without slots: it is discarded
};
static_assert(sizeof(CreditMessage) == kMessageBytes && offsetof(CreditMessage, addresses) == 32 &&
              std::is_trivially_copyable_v<CreditMessage>);

// FNV-1a. A sender gives a slice its place only if the tags of both ends are probably equal; the
// receiver compares the tags themselves.
constexpr uint32_t CheckOf(const SliceTag& tag) {
  uint32_t hash = 2166136261u;
  for (const std::byte byte : tag) hash = (hash ^ static_cast<uint32_t>(byte)) * 16777619u;
  return hash;
}

}  // namespace mccs::wire

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_WIRE_H_
