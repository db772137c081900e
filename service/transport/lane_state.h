// The states of one end of a lane.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_STATE_H_
#define MCCS_SERVICE_TRANSPORT_LANE_STATE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace mccs {

// clang-format off
//             Attach                exchanged
//   created ─────────► exchanging ────────────► ready
//                       ▲      │                  │
//               Attach  │      └────────┬─────────┘  the connection breaks
//                       │               ▼
//                       └─────────── stalled
//
//   any state ──► failed (final): the peer violates the protocol, or this end cannot go on
// clang-format on
//
// Attach in `exchanging` and `ready` replaces the connection and leads to `exchanging`.
enum class LaneState : uint8_t {
  kCreated,     // it has never had a connection
  kExchanging,  // connected; the ends agree on the last delivered slice, credit and places
  kReady,       // slices move
  kStalled,     // its connection is broken, and its owner opens another
  kFailed,
};

// "created", "exchanging", "ready", "stalled", "failed".
constexpr std::string_view Name(LaneState state) {
  switch (state) {
    case LaneState::kCreated:
      return "created";
    case LaneState::kExchanging:
      return "exchanging";
    case LaneState::kReady:
      return "ready";
    case LaneState::kStalled:
      return "stalled";
    case LaneState::kFailed:
      return "failed";
  }
  return "unknown";
}

// The queue pair of a lane over RDMA, for operators.
struct QueuePairState {
  std::string device;
  uint32_t port = 0;  // of the device
  std::array<uint8_t, 16> gid{};
  uint32_t number = 0;
  uint32_t peer_number = 0;
  uint16_t requested_source_port = 0;  // 0: any
  uint16_t source_port = 0;            // 0: unknown
  // How the NIC reaches the memory of the lane's last slice: "pinned", "dma-buf", or "copied"
  // through a bounce buffer. Empty: it has sent none.
  std::string memory;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_STATE_H_
