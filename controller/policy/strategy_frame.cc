#include "controller/policy/strategy_frame.h"

#include <algorithm>

#include "controller/policy/channel_nics.h"

namespace mccs {

strategy::Strategy FrameOf(const CommunicatorView& communicator, const std::vector<HostIndex>& ring,
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

bool SameButForItsName(strategy::Strategy a, strategy::Strategy b) {
  if (a.channels_size() != b.channels_size()) return false;
  for (strategy::Strategy* each : {&a, &b}) {
    each->clear_epoch();
    each->clear_origin();
    for (strategy::ChannelStrategy& channel : *each->mutable_channels()) {
      const auto& ports = channel.source_ports();
      const bool none = std::all_of(ports.begin(), ports.end(), [](uint32_t p) { return p == 0; });
      if (none) channel.clear_source_ports();
    }
  }
  // No maps: equal messages have equal bytes.
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace mccs
