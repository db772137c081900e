// The bytes on the connection of a lane over streams. Little-endian, no padding.
//
// From sender to receiver, once per slice, followed by the payload:
//
//    0         4         8                 16        48
//    | magic   | bytes   | slice number    | tag     | payload …
//    |         |         |                 | if "T"  |
//
// A slice has a tag only if it differs from the tag of the slice before it. So the slices of an
// operation send it once per lane, also over several connections.
//
// From receiver to sender. The first frame on every connection is a resume. The sender waits for it
// and continues from its `delivered`. Acks follow.
//
//    0         4         8         12        16                24                32
//    | magic   | slots   | slot    | reserved| delivered        | credit           |  resume, ack
//    |         |         |  bytes  |  = 0    |                  |                  |
//
// `delivered`: slices with smaller numbers have landed. `credit`: slices with smaller numbers may
// be sent. Neither decreases; delivered ≤ credit ≤ delivered + slots.
#ifndef MCCS_SERVICE_TRANSPORT_STREAM_WIRE_H_
#define MCCS_SERVICE_TRANSPORT_STREAM_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "service/transport/lane.h"

namespace mccs::wire {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kSliceMagic = 0x53'4c'43'4d;        // "MCLS"
inline constexpr uint32_t kTaggedSliceMagic = 0x54'4c'43'4d;  // "MCLT"
inline constexpr uint32_t kResumeMagic = 0x52'4c'43'4d;       // "MCLR"
inline constexpr uint32_t kAckMagic = 0x41'4c'43'4d;          // "MCLA"

struct SliceHeader {
  uint32_t magic;  // kSliceMagic, or kTaggedSliceMagic: a tag follows
  uint32_t bytes;  // of payload, ≤ the shape's slot_bytes
  uint64_t number;
};
static_assert(sizeof(SliceHeader) == 16 && offsetof(SliceHeader, number) == 8 &&
              std::is_trivially_copyable_v<SliceHeader>);

struct TaggedSliceHeader {
  SliceHeader header;
  SliceTag tag;
};
static_assert(sizeof(TaggedSliceHeader) == 48 && offsetof(TaggedSliceHeader, tag) == 16 &&
              std::is_trivially_copyable_v<TaggedSliceHeader>);

inline constexpr uint32_t HeaderBytes(bool tagged) {
  return tagged ? sizeof(TaggedSliceHeader) : sizeof(SliceHeader);
}
inline constexpr uint32_t HeaderBytes(const SliceHeader& header) {
  return HeaderBytes(header.magic == kTaggedSliceMagic);
}

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

#endif  // MCCS_SERVICE_TRANSPORT_STREAM_WIRE_H_
