#include "service/communicator/strategy_proto.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/strategy.pb.h"

namespace mccs {
namespace {

absl::StatusOr<ChannelStrategy> ChannelFromProto(const strategy::ChannelStrategy& message,
                                                 int index) {
  ChannelStrategy channel;
  channel.ring.reserve(message.ring_size());
  for (int32_t host : message.ring()) channel.ring.push_back(HostIndex(host));
  channel.source_ports.reserve(message.source_ports_size());
  for (uint32_t port : message.source_ports()) {
    if (port > std::numeric_limits<uint16_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: channel ", index, ": source port ", port, " is above 65535"));
    }
    channel.source_ports.push_back(static_cast<uint16_t>(port));
  }
  return channel;
}

}  // namespace

void ToProto(const Strategy& value, strategy::Strategy* message) {
  message->Clear();
  message->set_epoch(value.epoch.value());
  for (const ChannelStrategy& channel : value.channels) {
    strategy::ChannelStrategy* out = message->add_channels();
    for (HostIndex host : channel.ring) out->add_ring(host.value());
    for (uint16_t port : channel.source_ports) out->add_source_ports(port);
  }
  message->mutable_lanes()->set_slots(value.lanes.slots);
  message->mutable_lanes()->set_slot_bytes(value.lanes.slot_bytes);
  message->set_skew(value.skew);
  message->set_origin(value.origin);
}

absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts) {
  if (message.channels_size() > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ", message.channels_size(),
                                                   " channels; 1 to ", kMaxChannels, " work"));
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
  MCCS_RETURN_IF_ERROR(ValidateStrategy(value, hosts));
  return value;
}

}  // namespace mccs
