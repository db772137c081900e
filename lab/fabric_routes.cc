#include "lab/fabric_routes.h"

#include "absl/strings/str_cat.h"

namespace mccs::lab {
namespace {

// Rule preference between the kernel's rules for local addresses (0) and the main table (32766).
constexpr int kFirstPreference = 1000;
// Lower priority than all other routes.
constexpr int kLastResortMetric = 9999;

bool HasRules(const FabricPlan& plan) {
  return plan.topology.source_ports().kind == SourcePortMapping::Kind::kRules;
}

bool IsAt(const PortRule& rule, SwitchId at) { return rule.at.empty() || rule.at[at.value()]; }

SwitchId SwitchOf(const FabricPlan& plan, NodeId node) {
  return SwitchId(node.value() - plan.NodeOf(SwitchId(0)).value());
}

HostId HostOf(const FabricPlan& plan, NodeId node) {
  return HostId(node.value() - plan.NodeOf(HostId(0)).value());
}

std::string Via(const FabricPlan& plan, const Topology::Neighbour& next) {
  return absl::StrCat("via ", plan.node(plan.NodeOf(next.to)).address, " dev ",
                      plan.Tail(next.arc).device, " onlink");
}

// The part of a route after its destination; empty without next hops.
std::string NextHopText(const FabricPlan& plan, const std::vector<Topology::Neighbour>& next_hops) {
  if (next_hops.size() == 1) return absl::StrCat(" ", Via(plan, next_hops.front()));
  std::string ways;
  for (const Topology::Neighbour& next : next_hops) {
    absl::StrAppend(&ways, " nexthop ", Via(plan, next));
  }
  return ways;
}

}  // namespace

std::string RuleLines(const FabricPlan& plan, NodeId node) {
  std::string lines;
  const auto add = [&](size_t index, const std::string& selector, int tables) {
    absl::StrAppend(&lines, "rule add pref ", kFirstPreference + index, " ", selector, " lookup ",
                    tables + index, "\n");
  };
  if (plan.node(node).kind == FabricNode::Kind::kHost) {
    const Topology::Host& host = plan.topology.host(HostOf(plan, node));
    for (size_t j = 0; j < host.nics.size(); ++j) {
      add(j, absl::StrCat("from ", plan.nic_addresses[host.nics[j].value()]), kNicTables);
    }
  } else if (plan.node(node).kind == FabricNode::Kind::kSwitch && HasRules(plan)) {
    const std::vector<PortRule>& rules = plan.topology.source_ports().rules;
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!IsAt(rules[i], SwitchOf(plan, node))) continue;
      add(i, absl::StrCat("sport ", rules[i].ports.first, "-", rules[i].ports.last), kRuleTables);
    }
  }
  return lines;
}

FabricRoutes::FabricRoutes(const FabricPlan& plan, std::vector<bool> down)
    : plan_(plan), down_(std::move(down)), paths_(plan.topology, down_) {}

std::string FabricRoutes::LinesFor(NodeId node) {
  switch (plan_.node(node).kind) {
    case FabricNode::Kind::kManagement:
      return "";
    case FabricNode::Kind::kSwitch:
      return SwitchLines(SwitchOf(plan_, node));
    case FabricNode::Kind::kHost:
      return HostLines(HostOf(plan_, node));
  }
  return "";
}

std::string FabricRoutes::SwitchLines(SwitchId at) {
  std::string lines;
  for (size_t i = 0; i < plan_.topology.nics().size(); ++i) {
    const NicId id(static_cast<int32_t>(i));
    const Topology::Nic& nic = plan_.topology.nic(id);
    const std::string& address = plan_.nic_addresses[i];
    if (IsDown(nic.link)) {
      absl::StrAppend(&lines, "route replace unreachable ", address, "\n");
    } else if (nic.attached_to == at) {
      absl::StrAppend(&lines, "route replace ", address, " dev ",
                      plan_.Tail(plan_.topology.ArcInto(id)).device, " scope link src ",
                      plan_.node(plan_.NodeOf(at)).address, "\n");
    } else {
      AppendRoutes(at, address, nic.attached_to, &lines);
    }
  }
  for (size_t i = 0; i < plan_.topology.switches().size(); ++i) {
    const SwitchId other(static_cast<int32_t>(i));
    if (other != at) AppendRoutes(at, plan_.node(plan_.NodeOf(other)).address, other, &lines);
  }
  return lines;
}

void FabricRoutes::AppendRoutes(SwitchId at, const std::string& destination, SwitchId toward,
                                std::string* lines) {
  const auto equal = paths_.NextHops(at, toward);
  const std::vector<Topology::Neighbour> all(equal.begin(), equal.end());
  const std::string source = absl::StrCat(" src ", plan_.node(plan_.NodeOf(at)).address);
  if (all.empty()) {
    absl::StrAppend(lines, "route replace unreachable ", destination, "\n");
  } else {
    absl::StrAppend(lines, "route replace ", destination, source, NextHopText(plan_, all), "\n");
  }
  if (!HasRules(plan_)) return;
  const std::vector<PortRule>& rules = plan_.topology.source_ports().rules;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!IsAt(rules[i], at)) continue;
    std::vector<Topology::Neighbour> named;
    for (const Topology::Neighbour& next : all) {
      if (rules[i].via[next.arc.value()]) named.push_back(next);
    }
    if (named.empty()) {
      absl::StrAppend(lines, "route replace throw ", destination, " table ", kRuleTables + i, "\n");
    } else {
      absl::StrAppend(lines, "route replace ", destination, " table ", kRuleTables + i, source,
                      NextHopText(plan_, named), "\n");
    }
  }
}

std::string FabricRoutes::HostLines(HostId id) {
  const Topology::Host& host = plan_.topology.host(id);
  std::string lines;
  std::string first_route;
  for (size_t j = 0; j < host.nics.size(); ++j) {
    const Topology::Nic& nic = plan_.topology.nic(host.nics[j]);
    absl::StrAppend(&lines, "route replace unreachable default metric ", kLastResortMetric,
                    " table ", kNicTables + j, "\n");
    if (IsDown(nic.link)) continue;
    const std::string route =
        absl::StrCat(" via ", plan_.node(plan_.NodeOf(nic.attached_to)).address, " dev ", nic.name,
                     " onlink src ", plan_.nic_addresses[host.nics[j].value()]);
    absl::StrAppend(&lines, "route replace default", route, " table ", kNicTables + j, "\n");
    if (first_route.empty()) first_route = route;
  }
  absl::StrAppend(&lines, "route replace ", first_route.empty() ? "unreachable " : "", "default",
                  first_route, "\n");
  return lines;
}

}  // namespace mccs::lab
