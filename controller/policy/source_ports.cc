#include "controller/policy/source_ports.h"

namespace mccs {
namespace {

template <typename Key>
void CountOne(std::map<Key, int>* counts, const Key& key, int by) {
  const auto entry = counts->try_emplace(key, 0).first;
  entry->second += by;
  if (entry->second == 0) counts->erase(entry);
}

}  // namespace

void SourcePorts::Count(uint16_t port, const std::string& from, const std::string& to, int by) {
  CountOne(&anywhere_, port, by);
  CountOne(&from_host_, {from, port}, by);
  CountOne(&between_, {from, to, port}, by);
}

void SourcePorts::Count(const CommunicatorView& communicator, int by) {
  const int hosts = static_cast<int>(communicator.hosts.size());
  for (const strategy::ChannelStrategy& channel : communicator.strategy.channels()) {
    for (int i = 0; i < channel.source_ports_size() && i < channel.ring_size(); ++i) {
      const int from = channel.ring(i);
      const int to = channel.ring((i + 1) % channel.ring_size());
      if (channel.source_ports(i) == 0 || from < 0 || from >= hosts || to < 0 || to >= hosts)
        continue;
      Count(static_cast<uint16_t>(channel.source_ports(i)), communicator.hosts[from],
            communicator.hosts[to], by);
    }
  }
}

std::optional<uint16_t> SourcePorts::Choose(const PortRange& range, uint16_t now, uint64_t hash,
                                            const std::string& from, const std::string& to) {
  const uint32_t count = range.last - range.first + 1u;
  const auto search = [&](auto is_free) -> std::optional<uint16_t> {
    if (range.Contains(now) && is_free(now)) return now;
    for (uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(range.first + (hash + i) % count);
      if (is_free(port)) return port;
    }
    return std::nullopt;
  };
  std::optional<uint16_t> port = search([&](uint16_t p) { return !anywhere_.contains(p); });
  if (!port) port = search([&](uint16_t p) { return !from_host_.contains({from, p}); });
  if (!port) port = search([&](uint16_t p) { return !between_.contains({from, to, p}); });
  if (port) Count(*port, from, to, 1);
  return port;
}

}  // namespace mccs
