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
#ifndef MCCS_SERVICE_TRANSPORT_LANE_WIRE_H_
#define MCCS_SERVICE_TRANSPORT_LANE_WIRE_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "service/transport/lane.h"

namespace mccs::wire {

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

#endif  // MCCS_SERVICE_TRANSPORT_LANE_WIRE_H_
