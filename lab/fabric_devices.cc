#include "lab/fabric_devices.h"

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

}  // namespace mccs::lab
