#include "controller/policy/source_ports.h"

namespace mccs {

void SourcePorts::Take(uint16_t port, const std::string& from, const std::string& to) {
  anywhere_.insert(port);
  from_host_.emplace(from, port);
  between_.emplace(from, to, port);
}

void SourcePorts::TakeAll(const CommunicatorView& communicator) {
  const int hosts = static_cast<int>(communicator.hosts.size());
  for (const strategy::ChannelStrategy& channel : communicator.strategy.channels()) {
    for (int i = 0; i < channel.source_ports_size() && i < channel.ring_size(); ++i) {
      const int from = channel.ring(i);
      const int to = channel.ring((i + 1) % channel.ring_size());
      if (channel.source_ports(i) == 0 || from < 0 || from >= hosts || to < 0 || to >= hosts)
        continue;
      Take(static_cast<uint16_t>(channel.source_ports(i)), communicator.hosts[from],
           communicator.hosts[to]);
    }
  }
}

std::optional<uint16_t> SourcePorts::Choose(uint64_t hash, const std::string& from,
                                            const std::string& to) {
  const uint32_t count = range_.last - range_.first + 1u;
  const auto search = [&](auto is_free) -> std::optional<uint16_t> {
    for (uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(range_.first + (hash + i) % count);
      if (is_free(port)) return port;
    }
    return std::nullopt;
  };
  std::optional<uint16_t> port = search([&](uint16_t p) { return !anywhere_.contains(p); });
  if (!port) port = search([&](uint16_t p) { return !from_host_.contains({from, p}); });
  if (!port) port = search([&](uint16_t p) { return !between_.contains({from, to, p}); });
  if (port) Take(*port, from, to);
  return port;
}

}  // namespace mccs
