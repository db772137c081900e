#include "controller/policy/flow_planner.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "controller/policy/lane_hash.h"

namespace mccs {
namespace {

// Of `from` those that have none of these links, if there are any.
template <typename Avoided>
std::vector<PathIndex> Without(const PathSet& paths, std::vector<PathIndex> from, Avoided avoided) {
  std::vector<PathIndex> without;
  for (const PathIndex path : from) {
    const auto arcs = paths.Fabric(path);
    if (std::none_of(arcs.begin(), arcs.end(), [&](ArcId arc) { return avoided(LinkOf(arc)); }))
      without.push_back(path);
  }
  return without.empty() ? from : without;
}

bool AnyPort(uint16_t /*port*/) { return true; }

}  // namespace

FlowPlanner::Group& FlowPlanner::GroupOf(Fabric* fabric) {
  for (Group& group : groups_) {
    if (group.fabric == fabric) return group;
  }
  return groups_.emplace_back(Group{.fabric = fabric, .placed = {}, .lanes = {}});
}

void FlowPlanner::AddFixed(const CommunicatorView& communicator,
                           const strategy::Strategy& strategy) {
  const auto hosts = HostsOf(*fabrics_, communicator);
  const auto flows = FlowsOf(communicator, strategy, hosts);
  if (!flows.ok() || flows->empty()) return;
  Fabric* const fabric = hosts[0]->fabric;
  Group& group = GroupOf(fabric);
  for (const Flow& flow : *flows) {
    const PathSet paths = fabric->paths().Between(flow.from_nic, flow.to_nic);
    if (paths.empty()) continue;
    PlacedFlow placed = {.paths = paths, .allowed = nullptr, .path = {}, .fixed = true};
    if (flow.source_port != 0) {
      const auto path = fabric->ports().PathOf(flow.Ends(), flow.source_port);
      if (path.ok()) placed.path = *path;
    }
    group.placed.push_back(placed);
    group.lanes.push_back({.subject = -1, .flow = flow});
  }
}

absl::Status FlowPlanner::CheckWays(Fabric* fabric, const std::vector<Flow>& flows) const {
  const uint16_t any_port = fabric->topology().source_ports().candidates.first;
  for (const Flow& flow : flows) {
    MCCS_RETURN_IF_ERROR(fabric->ports().PathOf(flow.Ends(), any_port).status());
    if (!fabric->paths().Between(flow.from_nic, flow.to_nic).empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no links lead from ", fabric->topology().NicName(flow.from_nic), " to ",
                     fabric->topology().NicName(flow.to_nic)));
  }
  return absl::OkStatus();
}

absl::Status FlowPlanner::Add(const CommunicatorView& communicator, strategy::Strategy frame,
                              const FlowOptions& options) {
  const auto hosts = HostsOf(*fabrics_, communicator);
  const absl::StatusOr<std::vector<Flow>> flows = FlowsOf(communicator, frame, hosts);
  const absl::Status status = flows.ok() ? CheckWays(hosts[0]->fabric, *flows) : flows.status();
  if (!status.ok()) {
    AddFixed(communicator, communicator.strategy);
    return status;
  }
  taken_->GiveBack(communicator);
  Fabric* const fabric = hosts[0]->fabric;
  Subject subject = {.id = communicator.id,
                     .tenant = communicator.owner.name,
                     .strategy = std::move(frame),
                     .ports = fabric->topology().source_ports().candidates};
  if (options.ports) {
    subject.ports.first = std::max(subject.ports.first, options.ports->first);
    subject.ports.last = std::min(subject.ports.last, options.ports->last);
  }
  Limits limits = {options.avoid_links, subject.ports.first, subject.ports.last};
  subject.limits =
      limits_.try_emplace(std::move(limits), static_cast<int>(limits_.size())).first->second;
  subjects_.push_back(std::move(subject));
  Group& group = GroupOf(fabric);
  for (const Flow& flow : *flows) AddLane(communicator, flow, options, &group);
  return absl::OkStatus();
}

void FlowPlanner::AddLane(const CommunicatorView& communicator, const Flow& flow,
                          const FlowOptions& options, Group* group) {
  Fabric* const fabric = group->fabric;
  Subject& subject = subjects_.back();
  strategy::ChannelStrategy* channel = subject.strategy.mutable_channels(flow.channel);
  channel->add_source_ports(0);
  Lane lane = {.subject = static_cast<int>(subjects_.size()) - 1,
               .flow = flow,
               .ends = taken_->Between(communicator.hosts[flow.from], communicator.hosts[flow.to])};
  const Allowed& allowed = AllowedPaths(fabric, flow, options, subject);
  PlacedFlow placed = {.paths = fabric->paths().Between(flow.from_nic, flow.to_nic),
                       .allowed = allowed.paths.get(),
                       .path = {},
                       .fixed = !allowed.any_port,
                       .last = options.last};
  if (flow.channel < communicator.strategy.channels_size()) {
    const strategy::ChannelStrategy& now = communicator.strategy.channels(flow.channel);
    const bool stays = AddressOfHost(now, flow.from) == AddressOfHost(*channel, flow.from) &&
                       AddressOfHost(now, flow.to) == AddressOfHost(*channel, flow.to);
    if (stays) lane.flow.source_port = PortOfLane(now, flow.from, flow.to);
  }
  if (lane.flow.source_port != 0) {
    lane.port_path = *fabric->ports().PathOf(flow.Ends(), lane.flow.source_port);
    placed.path = lane.port_path;
  }
  group->placed.push_back(placed);
  group->lanes.push_back(std::move(lane));
}

const FlowPlanner::Allowed& FlowPlanner::AllowedPaths(Fabric* fabric, const Flow& flow,
                                                      const FlowOptions& options,
                                                      const Subject& subject) {
  const Topology& topology = fabric->topology();
  const bool by_probe = fabric->ports().ByProbe();
  const auto end = [&](NicId nic) {
    return by_probe ? nic.value() : topology.nic(nic).attached_to.value();
  };
  const AllowedKey key = {fabric, end(flow.from_nic), end(flow.to_nic), subject.limits};
  const auto [entry, is_new] = allowed_.try_emplace(key);
  if (!is_new) return entry->second;
  std::vector<bool> avoided(topology.links().size());
  for (const std::string& name : options.avoid_links) {
    if (const std::optional<LinkId> link = topology.FindLink(name)) avoided[link->value()] = true;
  }
  const PathSet paths = fabric->paths().Between(flow.from_nic, flow.to_nic);
  const bool by_rules = topology.source_ports().kind == SourcePortMapping::Kind::kRules;
  std::vector<PathIndex> allowed;
  for (int32_t p = 0; p < paths.size(); ++p) {
    // By a hash all have some.
    if (by_rules || by_probe) {
      const auto port =
          fabric->ports().FindPort(flow.Ends(), PathIndex(p), subject.ports, 0, AnyPort);
      if (!port.ok() || !*port) continue;
    }
    allowed.push_back(PathIndex(p));
  }
  entry->second.any_port = !by_probe || !allowed.empty();
  allowed = Without(paths, std::move(allowed), [&](LinkId l) { return fabric->IsDrained(l); });
  allowed = Without(paths, std::move(allowed), [&](LinkId l) { return avoided[l.value()]; });
  if (!allowed.empty() && allowed.size() < static_cast<size_t>(paths.size()))
    entry->second.paths = std::make_unique<std::vector<PathIndex>>(std::move(allowed));
  return entry->second;
}

// Round robin over the tenants.
void FlowPlanner::OrderNew(Group* group) {
  const size_t begin = group->ordered, count = group->lanes.size() - begin;
  std::map<std::string, size_t> seen;
  std::vector<std::tuple<size_t, const std::string*, size_t>> turns;
  const std::string none;
  for (size_t i = 0; i < count; ++i) {
    const int subject = group->lanes[begin + i].subject;
    const std::string& tenant = subject < 0 ? none : subjects_[subject].tenant;
    turns.emplace_back(seen[tenant]++, &tenant, i);
  }
  std::sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), *std::get<1>(a), std::get<2>(a)) <
           std::tie(std::get<0>(b), *std::get<1>(b), std::get<2>(b));
  });
  std::vector<PlacedFlow> placed;
  std::vector<Lane> lanes;
  for (const auto& [turn, tenant, i] : turns) {
    placed.push_back(group->placed[begin + i]);
    lanes.push_back(std::move(group->lanes[begin + i]));
  }
  std::copy(placed.begin(), placed.end(), group->placed.begin() + begin);
  std::move(lanes.begin(), lanes.end(), group->lanes.begin() + begin);
  group->ordered = group->lanes.size();
}

// First of all, so that no lane that is placed anew takes the port of one that stays.
void FlowPlanner::KeepPorts(Group* group) {
  for (size_t i = 0; i < group->lanes.size(); ++i) {
    Lane& lane = group->lanes[i];
    if (lane.subject < 0 || lane.held || lane.flow.source_port == 0) continue;
    Subject& subject = subjects_[lane.subject];
    if (!subject.ports.Contains(lane.flow.source_port)) continue;
    if (!lane.port_path || lane.port_path != group->placed[i].path) continue;
    if (!taken_->TakeBetween(lane.flow.source_port, lane.ends)) continue;
    lane.held = true;
    subject.strategy.mutable_channels(lane.flow.channel)
        ->set_source_ports(lane.flow.place, lane.flow.source_port);
  }
}

void FlowPlanner::ChoosePorts(Group* group) {
  for (size_t i = 0; i < group->lanes.size(); ++i) {
    Lane& lane = group->lanes[i];
    const std::optional<PathIndex> path = group->placed[i].path;
    if (lane.subject < 0 || (lane.held && lane.port_path == path)) continue;
    Subject& subject = subjects_[lane.subject];
    if (lane.held) taken_->GiveBack(lane.flow.source_port, lane.ends);
    const uint64_t hash = LaneHash(subject.id, lane.flow.channel, lane.flow.place);
    const PortRange range = {subject.ports.first, subject.ports.last};
    std::optional<uint16_t> port;
    if (path) {
      port = taken_->Choose(range, lane.ends,
                            [&](SourcePorts::IsFree is_free) -> std::optional<uint16_t> {
                              const auto found = group->fabric->ports().FindPort(
                                  lane.flow.Ends(), *path, subject.ports, hash, is_free);
                              return found.ok() ? *found : std::nullopt;
                            });
    }
    if (!port) {
      ++(path ? subject.astray : subject.unprobed);
      // One that is not known to be wrong stays: it will be probed.
      const uint16_t now = lane.port_path ? 0 : lane.flow.source_port;
      if (range.first <= range.last) port = taken_->Choose(range, now, hash, lane.ends);
    }
    lane.flow.source_port = port.value_or(0);
    lane.port_path = path;
    lane.held = port.has_value();
    subject.changed = true;
    subject.strategy.mutable_channels(lane.flow.channel)
        ->set_source_ports(lane.flow.place, lane.flow.source_port);
  }
}

std::vector<FlowPlanner::Planned> FlowPlanner::Solve() {
  for (Group& group : groups_) {
    OrderNew(&group);
    moved_ += PlaceFlows(group.fabric->capacity_bps(), group.placed);
    KeepPorts(&group);
  }
  for (Group& group : groups_) ChoosePorts(&group);
  std::vector<Planned> planned;
  for (Subject& subject : subjects_) {
    if (!std::exchange(subject.changed, false)) continue;
    planned.push_back({subject.id, subject.strategy, subject.astray, subject.unprobed});
  }
  return planned;
}

}  // namespace mccs
