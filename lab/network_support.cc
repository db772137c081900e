#include "lab/network_support.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lab/fabric_devices.h"
#include "lab/node.h"

namespace mccs::lab {
namespace {

struct Need {
  const char* what;
  std::string lines;
};

std::vector<Need> NeedsOfIp() {
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
  for (const Need& need : NeedsOfIp()) {
    if (absl::Status status = RunBatch(tools.ip, need.lines, node); !status.ok())
      return absl::UnimplementedError(
          absl::StrCat("this kernel does not support ", need.what, ": ", status.message()));
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
