#include "lab/commands.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/job.h"
#include "lab/products.h"
#include "lab/spawn.h"
#include "lab/status_report.h"
#include "lab/supervisor.h"

namespace mccs::lab {
namespace {

absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  MCCS_ASSIGN_OR_RETURN(bool held, caller.directories.IsHeld(name));
  if (!held) {
    std::string others;
    for (const std::string& other : caller.directories.HeldNames())
      absl::StrAppend(&others, " ", other);
    return absl::NotFoundError(absl::StrCat(
        "there is no lab '", name, "'; ",
        others.empty() ? "start one with 'mccs-lab up'" : absl::StrCat("these are up:", others)));
  }
  return ReadState(caller.directories.PathsOf(name));
}

absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindLab(caller, name));
  if (!lab.ready) return absl::UnavailableError(absl::StrCat("lab '", name, "' is still starting"));
  return lab;
}

// What a program on that host is started with.
absl::StatusOr<Variables> VariablesOf(const Caller& caller, const LabState& lab,
                                      const std::string& host) {
  MCCS_RETURN_IF_ERROR(lab.FindHost(host).status());
  MCCS_ASSIGN_OR_RETURN(Products products, FindProducts());
  return HostVariables({.host = host,
                        .socket = caller.directories.PathsOf(lab.name).Socket(host),
                        .controller_endpoint = lab.daemons.front().endpoint,
                        .gpus = lab.size.gpus_per_host},
                       products.preload, caller.environment);
}

// A port that nobody has at this moment. Whoever listens on it next may still lose a race for it.
absl::StatusOr<uint16_t> FreePort(const std::string& address) {
  UniqueFd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &place.sin_addr);
  socklen_t size = sizeof(place);
  if (bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&place), size) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&place), &size) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("no free port at ", address));
  }
  return ntohs(place.sin_port);
}

struct Placement {
  int32_t ranks;
  int32_t ranks_per_host;
};

absl::StatusOr<Placement> Place(const LabSize& size, const RunOptions& options) {
  Placement placement{options.ranks, options.ranks_per_host};
  if (placement.ranks_per_host == 0) placement.ranks_per_host = size.gpus_per_host;
  if (placement.ranks_per_host > size.gpus_per_host) {
    return absl::InvalidArgumentError(absl::StrCat("--ranks-per-host ", placement.ranks_per_host,
                                                   ": a host of this lab has ", size.gpus_per_host,
                                                   " GPUs"));
  }
  const int32_t most = size.hosts * placement.ranks_per_host;
  if (placement.ranks == 0) placement.ranks = most;
  if (placement.ranks > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", placement.ranks, ": this lab takes at most ", most, " (",
                     size.hosts, " hosts, ", placement.ranks_per_host, " ranks each)"));
  }
  return placement;
}

}  // namespace

absl::Status Up(const Caller& caller, const std::string& name, LabSize size) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  LabPlan plan{.name = name, .size = size, .products = {}, .environment = caller.environment};
  MCCS_ASSIGN_OR_RETURN(plan.products, FindProducts());
  std::string longest = caller.directories.PathsOf(name).Socket(HostName(size.hosts - 1));
  if (longest.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(longest, " is too long for a socket; choose a shorter --name"));
  }
  MCCS_RETURN_IF_ERROR(StartLab(plan, caller.directories));
  std::cout << "lab '" << name << "' is up: " << size.hosts
            << (size.hosts == 1 ? " host" : " hosts") << " with " << size.gpus_per_host
            << (size.gpus_per_host == 1 ? " GPU" : " GPUs") << " each\n";
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
  MCCS_ASSIGN_OR_RETURN(Placement placement, Place(lab.size, options));
  MCCS_ASSIGN_OR_RETURN(std::string file,
                        FindProgram(options.program.front(), Get(caller.environment, "PATH")));
  MCCS_ASSIGN_OR_RETURN(uint16_t port, FreePort(HostAddress(0)));
  std::vector<JobProcess> processes;
  for (int32_t rank = 0; rank < placement.ranks; ++rank) {
    const int32_t index = rank / placement.ranks_per_host;
    const std::string host = HostName(index);
    const int32_t here =
        std::min(placement.ranks_per_host, placement.ranks - index * placement.ranks_per_host);
    MCCS_ASSIGN_OR_RETURN(Variables of_host, VariablesOf(caller, lab, host));
    Variables of_rank = RankVariables({.rank = rank,
                                       .world_size = placement.ranks,
                                       .local_rank = rank % placement.ranks_per_host,
                                       .local_world_size = here,
                                       .master_address = HostAddress(0),
                                       .master_port = port},
                                      caller.environment);
    processes.push_back({.label = absl::StrCat("rank ", rank, " on ", host),
                         .prefix = absl::StrCat("[", rank, "] "),
                         .spawn = {.file = file,
                                   .argv = options.program,
                                   .environment = With(With(caller.environment, of_host), of_rank),
                                   .host_name = host}});
  }
  return Job({.prefixed = true, .grace_ns = options.grace_ns, .supervisor = lab.supervisor_pid})
      .Run(processes);
}

absl::StatusOr<int> Exec(const Caller& caller, const std::string& name,
                         const ExecOptions& options) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  MCCS_ASSIGN_OR_RETURN(Variables variables, VariablesOf(caller, lab, options.host));
  MCCS_ASSIGN_OR_RETURN(std::string file,
                        FindProgram(options.program.front(), Get(caller.environment, "PATH")));
  JobProcess process{.label = absl::StrCat("the program on ", options.host),
                     .prefix = "",
                     .spawn = {.file = file,
                               .argv = options.program,
                               .environment = With(caller.environment, variables),
                               .host_name = options.host}};
  return Job({.prefixed = false, .supervisor = lab.supervisor_pid}).Run({process});
}

absl::Status Env(const Caller& caller, const std::string& name, const std::string& host) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  MCCS_ASSIGN_OR_RETURN(Variables variables, VariablesOf(caller, lab, host));
  std::cout << ExportLines(variables);
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
    for (const std::string& held : caller.directories.HeldNames()) {
      // One that comes or goes at this very moment has no record; it is not shown.
      if (absl::StatusOr<LabState> lab = FindLab(caller, held); lab.ok())
        labs.push_back(*std::move(lab));
    }
  }
  std::cout << (as_json ? StatusJson(labs) : StatusTable(labs));
  return absl::OkStatus();
}

}  // namespace mccs::lab
