#include "controller/view/source_ports.h"

#include "base/check.h"

namespace mccs {
namespace {

// EnoughFree requires one free port in this many.
constexpr uint32_t kFreeFraction = 64;

uint64_t Key(SourcePorts::HostNumber from, uint16_t port) {
  return uint64_t{from.value()} << 16 | port;
}

uint64_t Key(const SourcePorts::Ends& ends, uint16_t port) {
  return uint64_t{ends.from.value()} << 40 | uint64_t{ends.to.value()} << 16 | port;
}

// Returns the new count.
int CountOne(absl::flat_hash_map<uint64_t, int>* counts, uint64_t key, int by) {
  const auto entry = counts->try_emplace(key, 0).first;
  const int count = entry->second += by;
  if (count == 0) counts->erase(entry);
  return count;
}

}  // namespace

SourcePorts::HostNumber SourcePorts::Number(const std::string& host) {
  return numbers_.try_emplace(host, HostNumber(static_cast<uint32_t>(numbers_.size())))
      .first->second;
}

SourcePorts::Ends SourcePorts::Between(const std::string& from, const std::string& to) {
  const HostNumber first = Number(from);
  return {first, Number(to)};
}

void SourcePorts::Count(uint16_t port, const Ends& ends, int by) {
  const bool was_free = anywhere_[port] == 0;
  anywhere_[port] += by;
  if (was_free) ++used_[port / kBlock];
  if (anywhere_[port] == 0) --used_[port / kBlock];
  CountOne(&from_host_, Key(ends.from, port), by);
  const int between = CountOne(&between_, Key(ends, port), by);
  if (by > 0 && between == 2) ++shared_;
  if (by < 0 && between == 1) --shared_;
  if (in_trial_) trial_.push_back({{ends, port}, by});
}

std::vector<SourcePorts::Port> SourcePorts::PortsOf(const CommunicatorView& communicator) {
  std::vector<HostNumber> hosts;
  for (const std::string& host : communicator.hosts) hosts.push_back(Number(host));
  const int count = static_cast<int>(hosts.size());
  std::vector<Port> ports;
  const auto add = [&](int from, int to, uint32_t port) {
    if (port == 0 || from < 0 || from >= count || to < 0 || to >= count) return;
    ports.push_back({{hosts[from], hosts[to]}, static_cast<uint16_t>(port)});
  };
  for (const strategy::ChannelStrategy& channel : communicator.strategy.channels()) {
    for (int i = 0; i < channel.source_ports_size() && i < channel.ring_size(); ++i)
      add(channel.ring(i), channel.ring((i + 1) % channel.ring_size()), channel.source_ports(i));
    for (const strategy::LanePort& lane : channel.other_lanes())
      add(lane.from(), lane.to(), lane.source_port());
  }
  return ports;
}

void SourcePorts::TakeAll(std::span<const Port> ports) {
  for (const Port& each : ports) Count(each.port, each.ends, 1);
}

void SourcePorts::Release(std::span<const Port> ports) {
  for (const Port& each : ports) Count(each.port, each.ends, -1);
}

bool SourcePorts::IsShared(uint16_t port, const Ends& ends) const {
  if (shared_ == 0) return false;
  const auto found = between_.find(Key(ends, port));
  return found != between_.end() && found->second > 1;
}

void SourcePorts::BeginTrial() {
  MCCS_CHECK(!in_trial_);
  in_trial_ = true;
}

void SourcePorts::UndoTrial() {
  in_trial_ = false;
  for (auto it = trial_.rbegin(); it != trial_.rend(); ++it)
    Count(it->first.port, it->first.ends, -it->second);
  trial_.clear();
}

bool SourcePorts::TakeBetween(uint16_t port, const Ends& ends) {
  if (between_.contains(Key(ends, port))) return false;
  Count(port, ends, 1);
  return true;
}

bool SourcePorts::EnoughFree(const SourcePortRange& range) const {
  const uint32_t enough = (range.last - range.first + kFreeFraction) / kFreeFraction;  // rounded up
  uint32_t found = 0, port = range.first;
  while (port <= range.last && found < enough) {
    if (port % kBlock == 0 && used_[port / kBlock] == kBlock) {
      port += kBlock;
    } else if (anywhere_[port++] == 0) {
      ++found;
    }
  }
  return found >= enough;
}

std::optional<uint16_t> SourcePorts::Choose(
    const SourcePortRange& range, const Ends& ends,
    absl::FunctionRef<std::optional<uint16_t>(IsFree)> search) {
  std::optional<uint16_t> port;
  if (EnoughFree(range)) port = search([&](uint16_t p) { return anywhere_[p] == 0; });
  if (!port) port = search([&](uint16_t p) { return !from_host_.contains(Key(ends.from, p)); });
  if (!port) port = search([&](uint16_t p) { return !between_.contains(Key(ends, p)); });
  if (port) Count(*port, ends, 1);
  return port;
}

std::optional<uint16_t> SourcePorts::Choose(const SourcePortRange& range, uint16_t now,
                                            uint64_t hash, const Ends& ends) {
  const uint32_t count = range.last - range.first + 1u;
  return Choose(range, ends, [&](IsFree is_free) -> std::optional<uint16_t> {
    if (range.Contains(now) && is_free(now)) return now;
    for (uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(range.first + (hash + i) % count);
      if (is_free(port)) return port;
    }
    return std::nullopt;
  });
}

}  // namespace mccs
