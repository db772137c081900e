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

// One channel: the order of hosts around its ring, and the source port of each lane.
struct ChannelStrategy {
  std::vector<HostIndex> ring;
  // source_ports[i]: lane from ring[i] to the host after it; 0: the system's choice. Empty: all 0.
  std::vector<uint16_t> source_ports;

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
inline constexpr uint32_t kMaxLaneSlots = 64;
inline constexpr uint32_t kMinSlotBytes = 16u << 10;
inline constexpr uint32_t kMaxSlotBytes = 16u << 20;

// Slots and staging of all lanes of one communicator on one host, those opened later included.
inline constexpr uint64_t kMaxLaneMemoryBytes = 1u << 30;

// kInvalidArgument with the field when `strategy` cannot serve a communicator of `hosts` hosts: a
// ring that is no permutation, ports that do not match, shapes out of range, costs or rules that
// ValidateChoice refuses. A strategy from outside this process is checked before it is used.
absl::Status ValidateStrategy(const Strategy& strategy, int hosts);

// Whether moving the lanes makes one out of the other: all that operations follow is the same.
bool DifferInPortsAlone(const Strategy& one, const Strategy& other);

ChannelOrders OrdersOf(const Strategy& strategy);

// Other hosts that a host may have all its lanes with, both ways, and staging for each: as many as
// kMaxLaneMemoryBytes are enough for.
int MaxPeers(const Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_H_
