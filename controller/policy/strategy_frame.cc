#include "controller/policy/strategy_frame.h"

#include <algorithm>

#include "controller/view/channel_nics.h"

namespace mccs {
namespace {

bool HasNoPorts(const strategy::ChannelStrategy& channel) {
  const auto& ports = channel.source_ports();
  return std::all_of(ports.begin(), ports.end(), [](uint32_t port) { return port == 0; });
}

}  // namespace

strategy::Strategy MakeFrame(const CommunicatorView& communicator,
                             const std::vector<HostIndex>& ring,
                             std::span<const FabricHost* const> hosts, const std::string& origin,
                             int channels_per_nic) {
  strategy::Strategy frame = communicator.strategy;
  frame.set_epoch(frame.epoch() + 1);
  frame.set_origin(origin);
  const bool alone = ring.size() < 2;
  const ChannelNics nics =
      alone ? ChannelNics() : ChooseNics(communicator, hosts, channels_per_nic);
  const int channels = nics.empty() ? frame.channels_size() : static_cast<int>(nics.size());
  frame.clear_channels();
  for (int c = 0; c < channels; ++c) {
    strategy::ChannelStrategy* channel = frame.add_channels();
    for (const HostIndex host : ring) channel->add_ring(host.value());
    if (nics.empty()) continue;
    const bool as_ever = std::all_of(ring.begin(), ring.end(), [&](HostIndex host) {
      return nics[c][host.value()].address == hosts[host.value()]->own_address;
    });
    if (as_ever) continue;
    for (const HostIndex host : ring) channel->add_addresses(nics[c][host.value()].address);
  }
  return frame;
}

bool IsSameStrategy(const strategy::Strategy& a, const strategy::Strategy& b) {
  if (a.channels_size() != b.channels_size()) return false;
  strategy::Strategy renamed = a;
  renamed.set_epoch(b.epoch());
  renamed.set_origin(b.origin());
  for (int c = 0; c < b.channels_size(); ++c) {
    if (HasNoPorts(a.channels(c)) && HasNoPorts(b.channels(c)))
      *renamed.mutable_channels(c)->mutable_source_ports() = b.channels(c).source_ports();
  }
  // No map fields: equal messages have equal bytes.
  return renamed.SerializeAsString() == b.SerializeAsString();
}

}  // namespace mccs
