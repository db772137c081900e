// The strategy of one communicator at one epoch: everything that a policy may choose. All hosts of
// the communicator hold the same one; plans, slicing and lanes follow from it and from the call
// alone.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/plan.h"
#include "base/ids.h"
#include "service/transport/lane.h"

namespace mccs {

// The source port of a lane between hosts that are no neighbours on the channel's ring.
struct LanePort {
  HostIndex from;
  HostIndex to;
  uint16_t source_port = 0;

  friend bool operator==(const LanePort&, const LanePort&) = default;
};

// One channel: the order of hosts around its ring, and the ways that its lanes take.
struct ChannelStrategy {
  std::vector<HostIndex> ring;
  // source_ports[i]: lane from ring[i] to the host after it; 0: the system's choice. Empty: all 0.
  std::vector<uint16_t> source_ports;
  // addresses[i]: numeric address of the NIC of ring[i] that all lanes of the channel leave from
  // and arrive at, at the port of the daemon's endpoint. Empty: the daemons' own addresses.
  std::vector<std::string> addresses = {};
  // Of lanes between other hosts than neighbours; 0 where there is none.
  std::vector<LanePort> other_lanes = {};

  friend bool operator==(const ChannelStrategy&, const ChannelStrategy&) = default;
};

struct Strategy {
  Epoch epoch{1};
  std::vector<ChannelStrategy> channels;
  LaneShape lanes;
  uint32_t skew = 1;  // IssueOrder
  ChoiceParameters algorithms;
  std::string origin;  // who chose it, for people: "locality_ring", "daemon default"

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

inline constexpr int kMaxChannels = 32;
// The channel of send/recv messages, beside those of the strategy: its lanes carry no plan's
// slices.
inline constexpr ChannelId kMessageChannel{kMaxChannels};
// Of Strategy::origin, in bytes; it goes into logs and reports.
inline constexpr size_t kMaxOriginBytes = 1024;
inline constexpr uint32_t kMaxLaneSlots = 64;
inline constexpr uint32_t kMinSlotBytes = 16u << 10;
inline constexpr uint32_t kMaxSlotBytes = 16u << 20;

// Slots and staging of all lanes of one communicator on one host, those opened later included.
inline constexpr uint64_t kMaxLaneMemoryBytes = 1u << 30;

// kInvalidArgument with the field when `strategy` cannot serve a communicator of `hosts` hosts: a
// ring that is no permutation, ports or addresses that do not match, shapes out of range, costs or
// rules that ValidateChoice refuses. A strategy from outside this process is checked before it is
// used.
absl::Status ValidateStrategy(const Strategy& strategy, int hosts);

// Whether moving the lanes makes one out of the other: all that operations follow is the same.
bool DifferInRoutesAlone(const Strategy& one, const Strategy& other);
// Whether the lanes of the one serve the other, as they are: calls alone are chosen for otherwise.
bool DifferInAlgorithmsAlone(const Strategy& one, const Strategy& other);

// What a strategy says about the connections of one lane.
struct LaneRoute {
  std::string source_host;   // empty: the daemon's own address
  std::string target_host;   // likewise, the peer's
  uint16_t source_port = 0;  // 0: the system's choice

  friend bool operator==(const LaneRoute&, const LaneRoute&) = default;
};
// REQUIRES: both are on the ring, and differ.
LaneRoute RouteOf(const ChannelStrategy& channel, HostIndex from, HostIndex to);
// Of the NIC that the channel's lanes have on `host`; empty: the daemon's own.
std::string AddressOn(const ChannelStrategy& channel, HostIndex host);

ChannelOrders OrdersOf(const Strategy& strategy);

// Other hosts that a host may have all its lanes with, both ways, and staging for each: as many as
// kMaxLaneMemoryBytes are enough for.
int MaxPeers(const Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_H_
