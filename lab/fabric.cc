#include "lab/fabric.h"

#include <net/if.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lab/fabric_lines.h"
#include "lab/node.h"

namespace mccs::lab {
namespace {

// Runs the lines of `lines_for` in each node.
template <typename LinesFor>
absl::Status RunInEach(const FabricPlan& plan, const std::string& tool,
                       const std::vector<NodeState>& nodes, LinesFor lines_for) {
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    absl::Status status = RunBatch(tool, lines_for(NodeId(static_cast<int32_t>(i))), nodes[i].pid);
    if (!status.ok())
      return absl::InternalError(absl::StrCat("in ", nodes[i].name, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status SetRoutes(const FabricPlan& plan, const NetworkTools& tools,
                       const std::vector<NodeState>& nodes, std::vector<bool> down) {
  FabricRoutes routes(plan, std::move(down));
  return RunInEach(plan, tools.ip, nodes, [&](NodeId node) { return routes.LinesFor(node); });
}

// Changes only the nodes whose routes differ. If no route differs, sets all of them again, because
// a user may have changed a device by hand.
absl::Status ChangeRoutes(const FabricPlan& plan, const NetworkTools& tools,
                          const std::vector<NodeState>& nodes, const std::vector<bool>& before,
                          const std::vector<bool>& after) {
  if (before == after) return SetRoutes(plan, tools, nodes, after);
  FabricRoutes old_routes(plan, before);
  FabricRoutes new_routes(plan, after);
  return RunInEach(plan, tools.ip, nodes, [&](NodeId node) {
    const std::string lines = new_routes.LinesFor(node);
    return lines == old_routes.LinesFor(node) ? "" : lines;
  });
}

// Reads a device's sysfs file of another node without entering the node.
absl::StatusOr<std::string> ReadDeviceFile(pid_t holder, const CableEnd& end,
                                           const std::string& name) {
  const std::string path =
      absl::StrCat("/proc/", holder, "/root/sys/class/net/", end.device, "/", name);
  std::ifstream file(path);
  std::string word;
  if (file >> word) return word;
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
}

absl::StatusOr<bool> IsUp(pid_t holder, const CableEnd& end) {
  MCCS_ASSIGN_OR_RETURN(const std::string flags, ReadDeviceFile(holder, end, "flags"));
  return (std::stoul(flags, nullptr, 16) & IFF_UP) != 0;
}

}  // namespace

absl::StatusOr<std::vector<NodeState>> BuildFabric(const FabricPlan& plan,
                                                   const NetworkTools& tools,
                                                   const LabPaths& paths) {
  std::ofstream hosts(paths.HostsFile());
  hosts << HostsFile(plan) << std::flush;
  if (!hosts) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths.HostsFile()));
  std::vector<NodeState> nodes;
  std::vector<int32_t> pids;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::string& name = plan.nodes[i].name;
    MCCS_ASSIGN_OR_RETURN(pid_t pid,
                          StartNode({.identity = {.name = name, .hosts_file = paths.HostsFile()},
                                     .sysctls = SysctlsOf(plan, NodeId(static_cast<int32_t>(i)))}));
    nodes.push_back({.name = name, .pid = pid});
    pids.push_back(pid);
  }
  // Run in a node, to keep the machine's own network unchanged.
  MCCS_RETURN_IF_ERROR(RunBatch(tools.ip, CableLines(plan, pids), pids.front()));
  MCCS_RETURN_IF_ERROR(RunInEach(plan, tools.ip, nodes, [&](NodeId node) {
    return DeviceLines(plan, node) + RuleLines(plan, node);
  }));
  MCCS_RETURN_IF_ERROR(
      RunInEach(plan, tools.tc, nodes, [&](NodeId node) { return QueueLines(plan, node); }));
  MCCS_RETURN_IF_ERROR(SetRoutes(plan, tools, nodes, {}));
  return nodes;
}

absl::StatusOr<Fabric::Port> Fabric::ReadPort(ArcId arc) const {
  const CableEnd& tail = plan_.Tail(arc);
  MCCS_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadDeviceFile(Holder(tail.node), tail, "statistics/tx_bytes"));
  MCCS_ASSIGN_OR_RETURN(const bool is_up, IsUp(Holder(tail.node), tail));
  return Port{.bytes = std::stoull(bytes), .is_up = is_up};
}

absl::StatusOr<std::vector<bool>> Fabric::DownLinks() const {
  std::vector<bool> down;
  for (const Cable& cable : plan_.cables) {
    MCCS_ASSIGN_OR_RETURN(const bool a_is_up, IsUp(Holder(cable.a.node), cable.a));
    MCCS_ASSIGN_OR_RETURN(const bool b_is_up, IsUp(Holder(cable.b.node), cable.b));
    down.push_back(!a_is_up || !b_is_up);
  }
  return down;
}

absl::Status Fabric::SetUp(LinkId link, bool up) const {
  const Cable& cable = plan_.cables[link.value()];
  MCCS_ASSIGN_OR_RETURN(const std::vector<bool> before, DownLinks());
  for (const CableEnd* end : {&cable.a, &cable.b}) {
    MCCS_RETURN_IF_ERROR(
        RunBatch(tools_.ip, absl::StrCat("link set dev ", end->device, up ? " up" : " down", "\n"),
                 Holder(end->node)));
  }
  MCCS_ASSIGN_OR_RETURN(const std::vector<bool> after, DownLinks());
  return ChangeRoutes(plan_, tools_, nodes_, before, after);
}

absl::Status Fabric::SetRate(LinkId link, uint64_t rate_bps) const {
  const Cable& cable = plan_.cables[link.value()];
  for (const CableEnd* end : {&cable.a, &cable.b}) {
    MCCS_RETURN_IF_ERROR(RunBatch(tools_.tc, RateLines(*end, rate_bps), Holder(end->node)));
  }
  return absl::OkStatus();
}

namespace {

struct KernelFeature {
  const char* what;
  std::string lines;
};

std::vector<KernelFeature> FeaturesOfIp() {
  return {
      {"virtual Ethernet pairs (CONFIG_VETH)",
       "link add name p0 mtu 9000 type veth peer name p1\n"
       "link set dev lo up\nlink set dev p0 up\nlink set dev p1 up\n"},
      {"bridges (CONFIG_BRIDGE)", "link add name bridge0 type bridge\n"},
      {"routing tables by source port (CONFIG_IP_MULTIPLE_TABLES)",
       "rule add pref 1000 sport 61000-61999 lookup 1000\n"},
      {"multipath routes (CONFIG_IP_ROUTE_MULTIPATH)",
       "route add 10.0.0.1 nexthop via 10.0.0.2 dev p0 onlink nexthop via 10.0.0.3 dev p1 "
       "onlink\n"},
  };
}

// The smallest topology; all switches have the same settings as its switch.
FabricPlan OneSwitch() {
  Topology topology("support");
  const SwitchId at = topology.AddSwitch("s");
  const HostId host = topology.AddHost("h", topology.AddRack("r"), 1);
  topology.AddNic(host, "nic0", at, 100'000'000);
  return *PlanFabric(std::move(topology));
}

absl::Status Try(const NetworkTools& tools, const FabricPlan& plan, pid_t node) {
  for (const KernelFeature& feature : FeaturesOfIp()) {
    if (absl::Status status = RunBatch(tools.ip, feature.lines, node); !status.ok())
      return absl::UnimplementedError(
          absl::StrCat("this kernel does not support ", feature.what, ": ", status.message()));
  }
  CableEnd end = plan.cables.front().b;
  end.device = "p0";
  absl::Status status = RunBatch(tools.tc, QueueLines(end, 100'000'000), node);
  if (status.ok()) return status;
  return absl::UnimplementedError(absl::StrCat(
      "this kernel does not support hierarchical token buckets with filters (CONFIG_NET_SCH_HTB, "
      "CONFIG_NET_SCH_FIFO, CONFIG_NET_CLS_U32): ",
      status.message()));
}

}  // namespace

absl::Status CheckNetworkSupport(const NetworkTools& tools) {
  const FabricPlan plan = OneSwitch();
  MCCS_ASSIGN_OR_RETURN(pid_t node,
                        StartNode({.identity = {.name = "support"},
                                   .sysctls = SysctlsOf(plan, plan.NodeOf(SwitchId(0)))}));
  absl::Status status = Try(tools, plan, node);
  kill(node, SIGKILL);
  while (waitpid(node, nullptr, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace mccs::lab
