#include "lab/link_commands.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "lab/fabric.h"
#include "lab/link_names.h"
#include "lab/link_rates.h"
#include "lab/link_report.h"
#include "lab/topology_file.h"

namespace mccs::lab {
namespace {

// The fabric of a running lab.
struct RunningFabric {
  LabPaths paths;
  LabState lab;
  FabricPlan plan;
  NetworkTools tools;

  // LIFETIME: this outlives the result.
  Fabric fabric() const { return Fabric(plan, tools, lab.nodes); }
};

absl::StatusOr<RunningFabric> FindFabric(const Caller& caller, const std::string& name) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindReadyLab(caller, name));
  if (!lab.has_network()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lab '", name, "' has no links: it was started without --network namespaces"));
  }
  const LabPaths paths = caller.directories.PathsOf(name);
  MCCS_ASSIGN_OR_RETURN(TopologyFile file, ReadTopologyFile(paths.Topology()));
  MCCS_ASSIGN_OR_RETURN(FabricPlan plan, PlanFabric(std::move(file.topology)));
  MCCS_ASSIGN_OR_RETURN(NetworkTools tools, FindNetworkTools(Get(caller.environment, "PATH") +
                                                             kAdministratorDirectories));
  return RunningFabric{paths, std::move(lab), std::move(plan), std::move(tools)};
}

// Serializes changes: concurrent ones could leave inconsistent routes. Locked until the descriptor
// is closed.
absl::StatusOr<UniqueFd> LockLinks(const LabPaths& paths) {
  UniqueFd file(open(paths.LinkLock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || flock(file.get(), LOCK_EX) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", paths.LinkLock()));
  return file;
}

std::string EndsOf(const Cable& cable) { return absl::StrCat(cable.a.name, " and ", cable.b.name); }

}  // namespace

absl::Status ShowLinks(const Caller& caller, const std::string& name, bool as_json) {
  MCCS_ASSIGN_OR_RETURN(const RunningFabric found, FindFabric(caller, name));
  MCCS_ASSIGN_OR_RETURN(const std::vector<uint64_t> rates,
                        ReadLinkRates(found.paths.LinkRates(), found.plan));
  const Fabric fabric = found.fabric();
  std::vector<LinkLine> lines;
  for (size_t i = 0; i < found.plan.cables.size(); ++i) {
    const LinkId link(static_cast<int32_t>(i));
    const Cable& cable = found.plan.cables[i];
    MCCS_ASSIGN_OR_RETURN(const Fabric::Port forward, fabric.ReadPort(ForwardArc(link)));
    MCCS_ASSIGN_OR_RETURN(const Fabric::Port backward, fabric.ReadPort(BackwardArc(link)));
    const bool is_up = forward.is_up && backward.is_up;
    lines.push_back({cable.name, cable.a.name, cable.b.name, forward.bytes, rates[i], is_up});
    lines.push_back({cable.name, cable.b.name, cable.a.name, backward.bytes, rates[i], is_up});
  }
  std::cout << (as_json ? LinkJson(lines) : LinkTable(lines));
  return absl::OkStatus();
}

absl::Status SetLinkUp(const Caller& caller, const std::string& name,
                       const std::vector<std::string>& words, bool up) {
  MCCS_ASSIGN_OR_RETURN(const RunningFabric found, FindFabric(caller, name));
  MCCS_ASSIGN_OR_RETURN(const LinkId link, FindLinkByWords(found.plan.topology, words));
  MCCS_ASSIGN_OR_RETURN(const UniqueFd lock, LockLinks(found.paths));
  MCCS_RETURN_IF_ERROR(found.fabric().SetUp(link, up));
  std::cout << "the link between " << EndsOf(found.plan.cables[link.value()]) << " is "
            << (up ? "up" : "down") << "\n";
  return absl::OkStatus();
}

absl::Status SetLinkRate(const Caller& caller, const std::string& name,
                         std::vector<std::string> words) {
  const std::string text = words.back();
  words.pop_back();
  const std::optional<uint64_t> rate_bps = ParseBitRate(text);
  if (!rate_bps || *rate_bps == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid rate '", text, "': expected a positive number with a unit, such as 200Mbit/s"));
  }
  MCCS_ASSIGN_OR_RETURN(const RunningFabric found, FindFabric(caller, name));
  MCCS_ASSIGN_OR_RETURN(const LinkId link, FindLinkByWords(found.plan.topology, words));
  MCCS_ASSIGN_OR_RETURN(const UniqueFd lock, LockLinks(found.paths));
  MCCS_ASSIGN_OR_RETURN(std::vector<uint64_t> rates,
                        ReadLinkRates(found.paths.LinkRates(), found.plan));
  MCCS_RETURN_IF_ERROR(found.fabric().SetRate(link, *rate_bps));
  rates[link.value()] = *rate_bps;
  MCCS_RETURN_IF_ERROR(WriteLinkRates(found.paths.LinkRates(), found.plan, rates));
  std::cout << "the link between " << EndsOf(found.plan.cables[link.value()]) << " has "
            << FormatBitRate(static_cast<double>(*rate_bps)) << "\n";
  return absl::OkStatus();
}

}  // namespace mccs::lab
