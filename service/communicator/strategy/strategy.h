// The strategy of one communicator at one epoch: everything that a policy may choose. All hosts of
// the communicator have the same one. Plans, slicing and lanes depend only on it and on the call.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/plan.h"
#include "base/ids.h"
#include "service/transport/lane.h"

namespace mccs {
namespace strategy {
class Strategy;  // proto/strategy.pb.h
}

// The source port of a lane between hosts that are not neighbours on the channel's ring.
struct LanePort {
  HostIndex from;
  HostIndex to;
  uint16_t source_port = 0;

  friend bool operator==(const LanePort&, const LanePort&) = default;
};

// One channel: the order of hosts around its ring, and the routes of its lanes.
struct ChannelStrategy {
  std::vector<HostIndex> ring;
  // source_ports[i]: lane from ring[i] to the next host; 0: the system's choice. Empty: all 0.
  std::vector<uint16_t> source_ports;
  // addresses[i]: numeric address of the NIC of ring[i] that all lanes of the channel use as source
  // and destination, with the port of the daemon's endpoint. Empty: the daemons' own addresses.
  std::vector<std::string> addresses = {};
  // Lanes between hosts that are not neighbours; a missing one has source port 0.
  std::vector<LanePort> other_lanes = {};
  // homes[i]: home rank of ring[i] (ChannelOrders), near the channel's NIC. Empty: DefaultHome.
  std::vector<LocalIndex> homes = {};

  friend bool operator==(const ChannelStrategy&, const ChannelStrategy&) = default;
};

struct Strategy {
  Epoch epoch{1};
  std::vector<ChannelStrategy> channels;
  LaneShape lanes;
  uint32_t skew = 1;  // IssueOrder
  ChoiceParameters algorithms;
  std::string origin;  // the policy that chose it, for people: "locality_ring", "daemon default"

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

inline constexpr int kMaxChannels = 32;
// Message lanes carry sends, receives and puts, in addition to the lanes of the strategy's
// channels. No plan uses them. Message lane n is channel kMaxChannels + n in preambles, limits and
// reports.
constexpr ChannelId MessageChannel(int lane) { return ChannelId(kMaxChannels + lane); }
constexpr bool IsMessageChannel(ChannelId channel) {
  return channel >= MessageChannel(0) && channel < MessageChannel(kMaxChannels);
}
// REQUIRES: IsMessageChannel(channel).
constexpr int MessageLaneOf(ChannelId channel) { return channel.value() - kMaxChannels; }

// Memory of all message lanes of one communicator on one host, if its number of hosts allows more
// than one lane between each two. It counts the lanes that peers open, too.
inline constexpr uint64_t kMaxMessageLaneBytes = 256u << 20;
// Upper bound of the memory of a message lane in both directions: copies of short slices, headers,
// and the stripes of messages in flight (service/messages/striping.h).
constexpr uint64_t MessageLaneBytes(const LaneShape& shape) {
  return uint64_t{shape.slots} * (5u << 10) + (24u << 10);
}
// Number of message lanes from a host to each other host, at most. All hosts of a communicator
// derive the same from its first strategy. REQUIRES: hosts > 0.
int MessageLanes(const LaneShape& shape, int hosts);
// Maximum size of Strategy::origin in bytes; it goes into logs and reports.
inline constexpr size_t kMaxOriginBytes = 1024;
inline constexpr uint32_t kMaxLaneSlots = 64;
inline constexpr uint32_t kMinSlotBytes = 16u << 10;
inline constexpr uint32_t kMaxSlotBytes = 16u << 20;

// Slots and staging memory of all lanes of one communicator on one host, including later ones.
inline constexpr uint64_t kMaxLaneMemoryBytes = 1u << 30;

// kInvalidArgument with the field if `strategy` cannot serve `hosts` hosts: a ring that is not a
// permutation, ports, addresses or home ranks that do not match, shapes out of range, or costs or
// rules that ValidateChoice rejects. Every strategy from outside this process is validated before
// use.
absl::Status ValidateStrategy(const Strategy& strategy, int hosts);

// kInvalidArgument if a home rank is not one of its host's ranks.
// REQUIRES: ValidateStrategy accepts the strategy for the layout's hosts.
absl::Status CheckHomes(const Strategy& strategy, const Layout& layout);

// How two strategies differ, besides epoch and origin.
enum class StrategyDifference : uint8_t {
  kRoutes,      // at most in routes: operations are not affected, the lanes move
  kAlgorithms,  // only in the choice of algorithms and home ranks: both use the same lanes
  kLanes,       // in more: each needs its own lanes
};
StrategyDifference Compare(const Strategy& one, const Strategy& other);

// The routing of one lane's connections.
struct LaneRoute {
  std::string source_host;   // empty: the daemon's own address
  std::string target_host;   // empty: the peer's own address
  uint16_t source_port = 0;  // 0: the system's choice

  friend bool operator==(const LaneRoute&, const LaneRoute&) = default;
};
// REQUIRES: both are on the ring and differ.
LaneRoute RouteOf(const ChannelStrategy& channel, HostIndex from, HostIndex to);
// Address of the channel's NIC on `host`; empty: the daemon's own address.
std::string AddressOn(const ChannelStrategy& channel, HostIndex host);

ChannelOrders OrdersOf(const Strategy& strategy);

// Number of other hosts with which a host may have all its lanes, in both directions, and staging
// memory for each, within kMaxLaneMemoryBytes.
int MaxPeers(const Strategy& strategy);

void ToProto(const Strategy& value, strategy::Strategy* message);

// Converts and validates the strategy in `message` for `hosts` hosts (ValidateStrategy).
// kInvalidArgument if it is invalid, including source ports out of range.
absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_H_
