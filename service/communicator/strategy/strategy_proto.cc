#include "service/communicator/strategy/strategy_proto.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/strategy.pb.h"

namespace mccs {
namespace {

absl::StatusOr<uint16_t> PortFromProto(uint32_t port, int channel) {
  if (port <= std::numeric_limits<uint16_t>::max()) return static_cast<uint16_t>(port);
  return absl::InvalidArgumentError(
      absl::StrCat("strategy: channel ", channel, ": source port ", port, " is above 65535"));
}

absl::StatusOr<ChannelStrategy> ChannelFromProto(const strategy::ChannelStrategy& message,
                                                 int index) {
  ChannelStrategy channel;
  channel.ring.reserve(message.ring_size());
  for (int32_t host : message.ring()) channel.ring.push_back(HostIndex(host));
  channel.source_ports.reserve(message.source_ports_size());
  for (uint32_t port : message.source_ports()) {
    MCCS_ASSIGN_OR_RETURN(channel.source_ports.emplace_back(), PortFromProto(port, index));
  }
  channel.addresses.assign(message.addresses().begin(), message.addresses().end());
  for (const strategy::LanePort& lane : message.other_lanes()) {
    MCCS_ASSIGN_OR_RETURN(const uint16_t port, PortFromProto(lane.source_port(), index));
    channel.other_lanes.push_back(
        {.from = HostIndex(lane.from()), .to = HostIndex(lane.to()), .source_port = port});
  }
  return channel;
}

void ToProto(const CostParameters& costs, strategy::CostParameters* out) {
  out->set_operation_us(costs.operation_us);
  out->set_hop_us(costs.hop_us);
  out->set_slice_us(costs.slice_us);
  out->set_lane_bytes_per_us(costs.lane_bytes_per_us);
  out->set_host_bytes_per_us(costs.host_bytes_per_us);
  out->set_local_bytes_per_us(costs.local_bytes_per_us);
}

CostParameters CostsFromProto(const strategy::CostParameters& costs) {
  return {.operation_us = costs.operation_us(),
          .hop_us = costs.hop_us(),
          .slice_us = costs.slice_us(),
          .lane_bytes_per_us = costs.lane_bytes_per_us(),
          .host_bytes_per_us = costs.host_bytes_per_us(),
          .local_bytes_per_us = costs.local_bytes_per_us()};
}

void ToProto(const ChoiceParameters& value, strategy::AlgorithmChoice* message) {
  ToProto(value.costs, message->mutable_costs());
  if (value.configured_costs.has_value())
    ToProto(*value.configured_costs, message->mutable_configured_costs());
  for (const AlgorithmRule& rule : value.rules) {
    strategy::AlgorithmRule* entry = message->add_rules();
    entry->set_kind(static_cast<uint32_t>(rule.kind));
    entry->set_algorithm(static_cast<strategy::Algorithm>(rule.algorithm));
    entry->set_min_bytes(rule.min_bytes);
    entry->set_max_bytes(rule.max_bytes);
  }
  message->set_operator_rules(value.operator_rules);
}

absl::StatusOr<ChoiceParameters> ChoiceFromProto(const strategy::AlgorithmChoice& message) {
  ChoiceParameters value;
  if (message.has_costs()) value.costs = CostsFromProto(message.costs());
  if (message.has_configured_costs())
    value.configured_costs = CostsFromProto(message.configured_costs());
  for (const strategy::AlgorithmRule& rule : message.rules()) {
    // Check before the conversion to narrower types.
    if (rule.kind() >= kOpKinds || rule.algorithm() < 0 || rule.algorithm() >= kAlgorithms) {
      return absl::InvalidArgumentError(absl::StrCat("strategy: algorithms: unknown kind ",
                                                     rule.kind(), " or algorithm ",
                                                     static_cast<int>(rule.algorithm())));
    }
    value.rules.push_back({.kind = static_cast<OpKind>(rule.kind()),
                           .algorithm = static_cast<Algorithm>(rule.algorithm()),
                           .min_bytes = rule.min_bytes(),
                           .max_bytes = rule.max_bytes()});
  }
  value.operator_rules = message.operator_rules();
  return value;
}

}  // namespace

void ToProto(const Strategy& value, strategy::Strategy* message) {
  message->Clear();
  message->set_epoch(value.epoch.value());
  for (const ChannelStrategy& channel : value.channels) {
    strategy::ChannelStrategy* out = message->add_channels();
    for (HostIndex host : channel.ring) out->add_ring(host.value());
    for (uint16_t port : channel.source_ports) out->add_source_ports(port);
    for (const std::string& address : channel.addresses) out->add_addresses(address);
    for (const LanePort& lane : channel.other_lanes) {
      strategy::LanePort* port = out->add_other_lanes();
      port->set_from(lane.from.value());
      port->set_to(lane.to.value());
      port->set_source_port(lane.source_port);
    }
  }
  message->mutable_lanes()->set_slots(value.lanes.slots);
  message->mutable_lanes()->set_slot_bytes(value.lanes.slot_bytes);
  message->set_skew(value.skew);
  ToProto(value.algorithms, message->mutable_algorithms());
  message->set_origin(value.origin);
}

absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts) {
  if (message.channels_size() > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ", message.channels_size(),
                                                   " channels: expected 1 to ", kMaxChannels));
  }
  Strategy value;
  value.epoch = Epoch(message.epoch());
  for (int i = 0; i < message.channels_size(); ++i) {
    MCCS_ASSIGN_OR_RETURN(ChannelStrategy channel, ChannelFromProto(message.channels(i), i));
    value.channels.push_back(std::move(channel));
  }
  value.lanes.slots = message.lanes().slots();
  value.lanes.slot_bytes = message.lanes().slot_bytes();
  value.skew = message.skew();
  value.origin = message.origin();
  MCCS_ASSIGN_OR_RETURN(value.algorithms, ChoiceFromProto(message.algorithms()));
  MCCS_RETURN_IF_ERROR(ValidateStrategy(value, hosts));
  return value;
}

}  // namespace mccs
