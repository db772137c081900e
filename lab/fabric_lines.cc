#include "lab/fabric_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "topology/linux_multipath_hash.h"

namespace mccs::lab {
namespace {

// Queue length: bytes that the link carries in this time, at least kMinQueueBytes.
constexpr uint64_t kQueueMs = 20;
constexpr uint64_t kMinQueueBytes = 256 << 10;
// Burst size: the maximum of two largest TCP segments (GSO) and the bytes that the link carries in
// this time, because timers of a busy machine expire late.
constexpr uint64_t kBurstMs = 2;
constexpr uint64_t kMinBurstBytes = 128 << 10;

// Number of DSCP class selectors; 0 is unmarked traffic.
constexpr int kClassSelectors = 8;
// Required by htb; without effect, since no two classes have the same priority.
constexpr int kQuantumBytes = 64 << 10;

// Seed of the first switch if the topology does not define hashing. Each switch has a different
// seed; with equal seeds, downstream switches would put all flows on the same link. Zero would make
// the kernel choose a random seed at each start.
constexpr uint32_t kFirstHashSeed = 0x6d636373;

// tc parses it as hexadecimal.
std::string ClassNumber(int selector) { return absl::StrCat(10 + selector); }

uint64_t BytesIn(uint64_t rate_bps, uint64_t ms) { return rate_bps / 8 / 1000 * ms; }

std::string ManagementPort(HostId host) { return absl::StrCat("m", host.value()); }

void AppendCable(int32_t pid_a, const std::string& device_a, int32_t pid_b,
                 const std::string& device_b, int mtu, std::string* lines) {
  absl::StrAppend(lines, "link add name ", device_a, " mtu ", mtu, " netns ", pid_a,
                  " type veth peer name ", device_b, " mtu ", mtu, " netns ", pid_b, "\n");
}

// Sets the addresses of the node's devices, and an alias that names the other end of each cable.
void AppendPorts(const FabricPlan& plan, NodeId node, std::string* lines) {
  const bool is_host = plan.node(node).kind == FabricNode::Kind::kHost;
  for (size_t i = 0; i < plan.cables.size(); ++i) {
    const Cable& cable = plan.cables[i];
    for (const auto& [here, there] : {std::pair(&cable.a, &cable.b), {&cable.b, &cable.a}}) {
      if (here->node != node) continue;
      if (is_host) {
        const NicId nic = *plan.topology.link(LinkId(static_cast<int32_t>(i))).nic;
        absl::StrAppend(lines, "address add ", plan.nic_addresses[nic.value()], "/32 dev ",
                        here->device, "\n");
      }
      absl::StrAppend(lines, "link set dev ", here->device, " alias \"to ", there->name, "\" up\n");
    }
  }
}

uint32_t HashFields(const SourcePortMapping& mapping) {
  return mapping.kind == SourcePortMapping::Kind::kHash ? mapping.hash.fields : kHashAllFields;
}

uint32_t HashSeed(const Topology& topology, SwitchId at) {
  if (topology.source_ports().kind != SourcePortMapping::Kind::kHash)
    return kFirstHashSeed + static_cast<uint32_t>(at.value());
  return topology.switch_of(at).hash_seed.value_or(topology.source_ports().hash.seed);
}

}  // namespace

std::string CableLines(const FabricPlan& plan, const std::vector<int32_t>& node_pids) {
  std::string lines;
  const auto pid_of = [&](NodeId node) { return node_pids[node.value()]; };
  for (const Cable& cable : plan.cables) {
    AppendCable(pid_of(cable.a.node), cable.a.device, pid_of(cable.b.node), cable.b.device,
                plan.topology.mtu_bytes(), &lines);
  }
  for (int32_t i = 0; i < static_cast<int32_t>(plan.topology.hosts().size()); ++i) {
    AppendCable(pid_of(plan.NodeOf(HostId(i))), kManagementDevice, pid_of(plan.management()),
                ManagementPort(HostId(i)), kManagementMtu, &lines);
  }
  return lines;
}

std::string DeviceLines(const FabricPlan& plan, NodeId node) {
  std::string lines = "link set dev lo up\n";
  switch (plan.node(node).kind) {
    case FabricNode::Kind::kManagement:
      absl::StrAppend(&lines, "link add name ", kManagementBridge, " mtu ", kManagementMtu,
                      " type bridge\n");
      for (int32_t i = 0; i < static_cast<int32_t>(plan.topology.hosts().size()); ++i) {
        absl::StrAppend(&lines, "link set dev ", ManagementPort(HostId(i)), " master ",
                        kManagementBridge, " up\n");
      }
      absl::StrAppend(&lines, "address add ", plan.node(node).address, "/", kManagementPrefixLength,
                      " dev ", kManagementBridge, "\nlink set dev ", kManagementBridge, " up\n");
      break;
    case FabricNode::Kind::kSwitch:
      absl::StrAppend(&lines, "address add ", plan.node(node).address, "/32 dev lo\n");
      break;
    case FabricNode::Kind::kHost: {
      const HostId host(node.value() - plan.NodeOf(HostId(0)).value());
      absl::StrAppend(&lines, "address add ", ManagementAddressOf(host), "/",
                      kManagementPrefixLength, " dev ", kManagementDevice, "\nlink set dev ",
                      kManagementDevice, " up\n");
      break;
    }
  }
  AppendPorts(plan, node, &lines);
  return lines;
}

std::string QueueLines(const FabricPlan& plan, NodeId node) {
  std::string lines;
  for (const Cable& cable : plan.cables) {
    if (cable.a.node == node) lines += QueueLines(cable.a, cable.rate_bps);
    if (cable.b.node == node) lines += QueueLines(cable.b, cable.rate_bps);
  }
  return lines;
}

std::string QueueLines(const CableEnd& end, uint64_t rate_bps) {
  std::string lines = absl::StrCat("qdisc add dev ", end.device, " root handle 1: htb default ",
                                   ClassNumber(0), "\n");
  lines += RateLines(end, rate_bps);
  for (int selector = 1; selector < kClassSelectors; ++selector) {
    absl::StrAppend(&lines, "filter add dev ", end.device,
                    " parent 1: protocol ip prio 1 u32 match ip dsfield ", selector << 5, " 0xe0 ",
                    "flowid 1:", ClassNumber(selector), "\n");
  }
  return lines;
}

// Each class has a negligible guaranteed rate and uses the capacity that higher classes leave.
std::string RateLines(const CableEnd& end, uint64_t rate_bps) {
  const uint64_t burst = std::max(kMinBurstBytes, BytesIn(rate_bps, kBurstMs));
  const std::string to_the_link = absl::StrCat("bit ceil ", rate_bps, "bit burst ", burst,
                                               "b cburst ", burst, "b quantum ", kQuantumBytes);
  std::string lines = absl::StrCat("class replace dev ", end.device,
                                   " parent 1: classid 1:1 htb rate ", rate_bps, to_the_link, "\n");
  for (int selector = 0; selector < kClassSelectors; ++selector) {
    const std::string number = ClassNumber(selector);
    absl::StrAppend(&lines, "class replace dev ", end.device, " parent 1:1 classid 1:", number,
                    " htb rate ", std::max<uint64_t>(rate_bps / 1000, 8), to_the_link, " prio ",
                    kClassSelectors - 1 - selector, "\nqdisc replace dev ", end.device,
                    " parent 1:", number, " handle ", number, ": bfifo limit ",
                    std::max(kMinQueueBytes, BytesIn(rate_bps, kQueueMs)), "\n");
  }
  return lines;
}

std::vector<Sysctl> SysctlsOf(const FabricPlan& plan, NodeId node) {
  // Counters should count flows only, not neighbour discovery. Absent if the kernel lacks IPv6.
  std::vector<Sysctl> sysctls = {{"net.ipv6.conf.all.disable_ipv6", "1", /*required=*/false},
                                 {"net.ipv6.conf.default.disable_ipv6", "1", /*required=*/false},
                                 // Asymmetric paths are intended: disable reverse path filtering.
                                 {"net.ipv4.conf.all.rp_filter", "0"},
                                 {"net.ipv4.conf.default.rp_filter", "0"}};
  const auto add = [&](std::string name, std::string value) {
    sysctls.push_back({std::move(name), std::move(value)});
  };
  if (plan.node(node).kind == FabricNode::Kind::kHost) {
    // The same on every machine, and permitted in every namespace.
    add("net.ipv4.tcp_congestion_control", "reno");
  }
  if (plan.node(node).kind != FabricNode::Kind::kSwitch) return sysctls;
  const SwitchId at(node.value() - plan.NodeOf(SwitchId(0)).value());
  add("net.ipv4.ip_forward", "1");
  // Policy 3 hashes the packet's fields. The others use the sending socket's hash, which veth pairs
  // pass on and which differs per connection.
  add("net.ipv4.fib_multipath_hash_policy", "3");
  add("net.ipv4.fib_multipath_hash_fields", absl::StrCat(HashFields(plan.topology.source_ports())));
  add("net.ipv4.fib_multipath_hash_seed", absl::StrCat(HashSeed(plan.topology, at)));
  // No ICMP rate limit: switches answer every probe.
  add("net.ipv4.icmp_ratelimit", "0");
  add("net.ipv4.icmp_ratemask", "0");
  return sysctls;
}

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
