#include "lab/commands.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/environment.h"
#include "lab/fabric.h"
#include "lab/fabric_plan.h"
#include "lab/host_identity.h"
#include "lab/job.h"
#include "lab/network_tools.h"
#include "lab/node.h"
#include "lab/reports.h"
#include "lab/spawn.h"
#include "lab/supervisor.h"
#include "lab/vms.h"

namespace mccs::lab {
namespace {

// The socket of `tenant` on `host`: of 'up --tenants', or else the one that a Tenant declares with
// the path TENANT.sock. Empty: the common socket.
absl::StatusOr<std::string> SocketOf(const LabState& lab, const LabPaths& paths,
                                     const std::string& host, const std::string& tenant) {
  const bool is_configured =
      std::find(lab.tenants.begin(), lab.tenants.end(), tenant) != lab.tenants.end();
  if (tenant.empty() || is_configured)
    return lab.has_vms() ? VmSocket(tenant) : paths.Socket(host, tenant);
  // The directory of a virtual machine is not visible from here.
  if (lab.has_vms()) return absl::StrCat(kVmSocketDirectory, "/", tenant, ".sock");
  std::string declared = absl::StrCat(paths.SocketDirectory(host), "/", tenant, ".sock");
  std::error_code ignored;
  if (std::filesystem::is_socket(declared, ignored)) return declared;
  return absl::InvalidArgumentError(
      absl::StrCat("host ", host, " has no socket of tenant '", tenant,
                   "'; apply a Tenant with the socket path ", tenant,
                   ".sock, or restart the lab with 'mccs-lab up --tenants ", tenant, "'"));
}

// The variables for a program of `tenant` on `host`.
absl::StatusOr<Variables> VariablesOf(const Caller& caller, const LabState& lab,
                                      const std::string& host, const std::string& tenant = "") {
  MCCS_ASSIGN_OR_RETURN(const DaemonState* daemon, lab.FindHost(host));
  MCCS_ASSIGN_OR_RETURN(Products products, FindProducts());
  MCCS_ASSIGN_OR_RETURN(const std::string socket,
                        SocketOf(lab, caller.directories.PathsOf(lab.name), host, tenant));
  return HostVariables(
      {.host = host,
       .socket = socket,
       .controller_endpoint = lab.daemons.front().endpoint,
       .operator_certificate = caller.directories.PathsOf(lab.name).OperatorCertificate(),
       .gpus = daemon->gpus,
       .has_network = lab.has_network()},
      products.preload, caller.environment);
}

HostIdentity HostOf(const Caller& caller, const LabState& lab, const std::string& host) {
  return {.name = host, .hosts_file = caller.directories.PathsOf(lab.name).HostsFile()};
}

// MASTER_ADDR and MASTER_PORT: a free port on the host of rank 0.
struct MasterAddress {
  std::string address;
  uint16_t port = 0;
};

// Below the kernel's range for outgoing connections. Jobs of a lab start one after the other, so
// they rarely have the same.
constexpr int kFirstVmMasterPort = 20000;
constexpr int kVmMasterPorts = 10000;

absl::StatusOr<MasterAddress> ChooseMasterAddress(const LabState& lab, const DaemonState& host) {
  MasterAddress master{.address = lab.hosts().front().address};
  if (!lab.has_network()) {
    MCCS_ASSIGN_OR_RETURN(master.port, FreePort(master.address));
    return master;
  }
  if (lab.has_vms()) {
    master.address = host.address;
    master.port = static_cast<uint16_t>(kFirstVmMasterPort + getpid() % kVmMasterPorts);
    return master;
  }
  const auto index = static_cast<int32_t>(&host - lab.hosts().data());
  master.address = ManagementAddressOf(HostId(index));
  MCCS_ASSIGN_OR_RETURN(const pid_t node, lab.NodeHolder(host.name));
  MCCS_RETURN_IF_ERROR(RunInNetworkOf(node, [&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(master.port, FreePort(master.address));
    return absl::OkStatus();
  }));
  return master;
}

// Fills the parts of `plan` that come from the topology file.
absl::Status ReadTopology(const UpOptions& options, const Environment& environment, LabPlan* plan) {
  MCCS_ASSIGN_OR_RETURN(TopologyFile file, ReadTopologyFile(options.topology));
  if (options.network == kNetworkOfProcesses) {
    plan->hosts = PlainHostsOf(file.topology);
    if (plan->hosts.size() <= static_cast<size_t>(kMaxHosts)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(options.topology, " has ", plan->hosts.size(),
                                                   " hosts; a lab can have at most ", kMaxHosts));
  }
  MCCS_ASSIGN_OR_RETURN(FabricPlan fabric, PlanFabric(std::move(file.topology)));
  MCCS_ASSIGN_OR_RETURN(NetworkTools tools,
                        FindNetworkTools(Get(environment, "PATH") + kAdministratorDirectories));
  MCCS_RETURN_IF_ERROR(CheckNetworkSupport(tools));
  plan->hosts = FabricHostsOf(fabric);
  plan->network = LabNetwork{.fabric = std::move(fabric),
                             .tools = std::move(tools),
                             .topology_text = std::move(file.text)};
  return absl::OkStatus();
}

// Fills the parts of `plan` for virtual machines. REQUIRES: it has its products.
absl::Status PlanVms(const UpOptions& options, const Environment& environment, LabPlan* plan) {
  if (options.hosts > kMaxVms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--hosts ", options.hosts, ": a lab can have at most ", kMaxVms, " virtual machines"));
  }
  plan->hosts = VmHosts(options.hosts, options.gpus_per_host);
  MCCS_ASSIGN_OR_RETURN(plan->qemu, PrepareVms(plan->products.vm_preparation, environment));
  std::cerr << "booting " << options.hosts << " virtual machine" << (options.hosts == 1 ? "" : "s")
            << std::endl;
  return absl::OkStatus();
}

absl::Status CheckSockets(const LabPaths& paths, const LabPlan& plan) {
  std::string longest;
  for (const std::string& tenant : plan.tenants) {
    MCCS_RETURN_IF_ERROR(ValidateTenantName(tenant));
    if (tenant.size() > longest.size()) longest = tenant;
  }
  for (const LabHost& host : plan.hosts) {
    for (const std::string& tenant : {std::string(), longest}) {
      const std::string socket = paths.Socket(host.name, tenant);
      if (socket.size() < sizeof(sockaddr_un::sun_path)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("path ", socket, " is too long for a socket; choose a shorter --name"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return text;
}

std::string DescribeLab(const LabPlan& plan) {
  std::string text = absl::StrCat("lab '", plan.name, "' is up: ", plan.hosts.size(),
                                  plan.has_vms() ? " virtual machine" : " host",
                                  plan.hosts.size() == 1 ? "" : "s");
  const int32_t gpus = plan.hosts.front().gpus;
  const bool are_alike = std::all_of(plan.hosts.begin(), plan.hosts.end(),
                                     [&](const LabHost& host) { return host.gpus == gpus; });
  if (are_alike) absl::StrAppend(&text, " with ", gpus, gpus == 1 ? " GPU each" : " GPUs each");
  if (plan.network) {
    absl::StrAppend(&text, ", ", plan.network->fabric.topology.switches().size(), " switches, ",
                    plan.network->fabric.cables.size(), " links");
  }
  return text;
}

// Applies the topology to the lab's controller, as an operator would. The lab stays up if the
// controller rejects it. Does not use Job, because Job kills all descendants at its end.
absl::Status ApplyTopology(const Caller& caller, const LabPlan& plan, const std::string& file) {
  MCCS_ASSIGN_OR_RETURN(const LabState lab, FindReadyLab(caller, plan.name));
  MCCS_ASSIGN_OR_RETURN(const Place place,
                        lab.PlaceOf(caller.directories.PathsOf(plan.name), kControllerName));
  MCCS_ASSIGN_OR_RETURN(
      const pid_t mccsctl,
      Spawn({.file = plan.products.mccsctl,
             .argv = {"mccsctl", "apply", "-f", file},
             .environment =
                 With(caller.environment,
                      {{"MCCS_CONTROLLER", lab.daemons.front().endpoint},
                       {"MCCS_TLS", caller.directories.PathsOf(plan.name).OperatorCertificate()}}),
             .place = place}));
  int status = 0;
  while (waitpid(mccsctl, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return absl::OkStatus();
  std::cerr << "mccs-lab: 'mccsctl apply' failed (see the message above), so the controller has no "
               "topology; correct the cause and apply the file again with 'mccsctl apply'\n";
  return absl::OkStatus();
}

// Only a warning: most programs do not need a host name.
void WarnIfIdentityUnsupported(const Caller& caller, const LabPlan& plan) {
  const absl::Status status =
      CheckBecomeHost({.name = plan.hosts.front().name,
                       .hosts_file = caller.directories.PathsOf(plan.name).HostsFile()});
  if (status.ok()) return;
  std::cerr << "mccs-lab: programs on this lab's hosts may see the machine's host name and "
               "/etc/hosts: "
            << status.message() << "; run mccs-lab as root or allow user namespaces\n";
}

}  // namespace

absl::Status Up(const Caller& caller, const std::string& name, const UpOptions& options) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  LabPlan plan{.name = name,
               .hosts = {},
               .tenants = options.tenants,
               .products = {},
               .environment = caller.environment,
               .network = {}};
  MCCS_ASSIGN_OR_RETURN(plan.products, FindProducts());
  if (options.network == kNetworkOfRdmaVms) {
    if (!options.topology.empty()) {
      return absl::InvalidArgumentError(
          "cannot start the lab: --network rdma-vms has no topology; replace --topology by --hosts "
          "and --gpus");
    }
    MCCS_RETURN_IF_ERROR(PlanVms(options, caller.environment, &plan));
  } else if (!options.topology.empty()) {
    MCCS_RETURN_IF_ERROR(ReadTopology(options, caller.environment, &plan));
  } else if (options.network == kNetworkOfProcesses) {
    plan.hosts = PlainHosts(options.hosts, options.gpus_per_host);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot start the lab: --network ", options.network,
                     " needs switches and links; add --topology FILE"));
  }
  if (!options.mccsd_config.empty()) {
    MCCS_ASSIGN_OR_RETURN(plan.mccsd_config, ReadWhole(options.mccsd_config));
  }
  MCCS_RETURN_IF_ERROR(CheckSockets(caller.directories.PathsOf(name), plan));
  MCCS_RETURN_IF_ERROR(StartLab(plan, caller.directories));
  std::cout << DescribeLab(plan) << std::endl;  // before the output of child processes
  if (plan.network) return ApplyTopology(caller, plan, options.topology);
  if (!plan.has_vms()) WarnIfIdentityUnsupported(caller, plan);
  return absl::OkStatus();
}

absl::Status Down(const Caller& caller, const std::string& name) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  MCCS_RETURN_IF_ERROR(StopLab(name, caller.directories));
  std::cout << "lab '" << name << "' is down\n";
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const Caller& caller, const std::string& name, const RunOptions& options) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  MCCS_ASSIGN_OR_RETURN(const std::vector<PlacedRank> ranks,
                        PlaceRanks(lab, {.ranks = options.ranks,
                                         .ranks_per_host = options.ranks_per_host,
                                         .hosts = options.hosts}));
  MCCS_ASSIGN_OR_RETURN(std::string file,
                        FindProgram(options.program.front(), Get(caller.environment, "PATH")));
  MCCS_ASSIGN_OR_RETURN(const MasterAddress master, ChooseMasterAddress(lab, *ranks.front().host));
  const LabPaths paths = caller.directories.PathsOf(name);
  std::vector<JobProcess> processes;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string& host = ranks[rank].host->name;
    MCCS_ASSIGN_OR_RETURN(Variables of_host, VariablesOf(caller, lab, host, options.tenant));
    MCCS_ASSIGN_OR_RETURN(const Place place, lab.PlaceOf(paths, host));
    Variables of_rank = RankVariables({.rank = static_cast<int32_t>(rank),
                                       .world_size = static_cast<int32_t>(ranks.size()),
                                       .host_index = ranks[rank].host_index,
                                       .local_rank = ranks[rank].local_rank,
                                       .local_world_size = ranks[rank].local_world_size,
                                       .master_address = master.address,
                                       .master_port = master.port},
                                      caller.environment);
    processes.push_back({.label = absl::StrCat("rank ", rank, " on ", host),
                         .prefix = absl::StrCat("[", rank, "] "),
                         .spawn = {.file = file,
                                   .argv = options.program,
                                   .environment = With(With(caller.environment, of_host), of_rank),
                                   .host = HostOf(caller, lab, host),
                                   .place = place}});
  }
  return Job({.prefixed = true, .grace_ns = options.grace_ns, .supervisor = lab.supervisor_pid})
      .Run(processes);
}

absl::StatusOr<int> Exec(const Caller& caller, const std::string& name,
                         const ExecOptions& options) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  MCCS_ASSIGN_OR_RETURN(const Place place,
                        lab.PlaceOf(caller.directories.PathsOf(name), options.host));
  Variables variables = {{"MCCS_CONTROLLER", lab.daemons.front().endpoint},
                         {"MCCS_TLS", caller.directories.PathsOf(name).OperatorCertificate()}};
  // Switches have no daemon, so no variables that refer to one.
  if (lab.nodes.empty() || lab.FindHost(options.host).ok()) {
    MCCS_ASSIGN_OR_RETURN(variables, VariablesOf(caller, lab, options.host, options.tenant));
  }
  MCCS_ASSIGN_OR_RETURN(std::string file,
                        FindProgram(options.program.front(), Get(caller.environment, "PATH")));
  JobProcess process{.label = absl::StrCat("program on ", options.host),
                     .prefix = "",
                     .spawn = {.file = file,
                               .argv = options.program,
                               .environment = With(caller.environment, variables),
                               .host = HostOf(caller, lab, options.host),
                               .place = place}};
  return Job({.prefixed = false, .supervisor = lab.supervisor_pid}).Run({process});
}

absl::Status Env(const Caller& caller, const std::string& name, const std::string& host) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  if (lab.has_vms()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot print variables of ", host,
                     ": variables do not move a shell into a virtual machine; use 'mccs-lab exec ",
                     host, " -- sh -i'"));
  }
  MCCS_ASSIGN_OR_RETURN(Variables variables, VariablesOf(caller, lab, host));
  std::cout << ExportLines(variables);
  // Variables cannot move the calling shell into the host's network namespace.
  if (lab.has_network()) {
    std::cout << "# for a shell in the network of " << host << ": mccs-lab exec --name " << name
              << " " << host << " -- $SHELL\n";
  }
  return absl::OkStatus();
}

absl::Status Logs(const Caller& caller, const std::string& name, const std::string& daemon) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindLab(caller, name));
  MCCS_RETURN_IF_ERROR(lab.Find(daemon).status());
  std::ifstream log(caller.directories.PathsOf(name).Log(daemon));
  // An empty stream buffer would mark the output as failed.
  if (log.peek() != std::ifstream::traits_type::eof()) std::cout << log.rdbuf();
  return absl::OkStatus();
}

absl::Status ShowStatus(const Caller& caller, const std::string& name, bool as_json) {
  std::vector<LabState> labs;
  if (!name.empty()) {
    MCCS_ASSIGN_OR_RETURN(LabState lab, FindLab(caller, name));
    labs.push_back(std::move(lab));
  } else {
    for (const std::string& held : caller.directories.RunningNames()) {
      // A lab that is starting or stopping has no state file yet; skip it.
      if (absl::StatusOr<LabState> lab = FindLab(caller, held); lab.ok())
        labs.push_back(*std::move(lab));
    }
  }
  std::cout << (as_json ? StatusJson(labs) : StatusTable(labs));
  return absl::OkStatus();
}

}  // namespace mccs::lab
