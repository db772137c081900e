#include "lab/link_commands.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "base/yaml_config.h"
#include "lab/fabric.h"
#include "lab/fabric_plan.h"
#include "lab/reports.h"

namespace mccs::lab {
namespace {

bool IsEndA(const Topology& topology, const Topology::Link& link, const std::string& name) {
  if (!link.nic) return topology.switch_of(link.a).name == name;
  return topology.NicName(*link.nic) == name ||
         topology.host(topology.nic(*link.nic).host).name == name;
}

bool IsEndB(const Topology& topology, const Topology::Link& link, const std::string& name) {
  return topology.switch_of(link.b).name == name;
}

bool Joins(const Topology& topology, const Topology::Link& link, const std::string& one,
           const std::string& other) {
  return (IsEndA(topology, link, one) && IsEndB(topology, link, other)) ||
         (IsEndA(topology, link, other) && IsEndB(topology, link, one));
}

}  // namespace

absl::StatusOr<LinkId> FindLinkByWords(const Topology& topology,
                                       const std::vector<std::string>& words) {
  if (words.size() == 1) {
    if (const std::optional<LinkId> link = topology.FindLink(words[0])) return *link;
    return absl::NotFoundError(
        absl::StrCat("link '", words[0], "' does not exist; see 'mccs-lab links'"));
  }
  std::vector<LinkId> meant;
  for (size_t i = 0; i < topology.links().size(); ++i) {
    if (Joins(topology, topology.links()[i], words[0], words[1]))
      meant.push_back(LinkId(static_cast<int32_t>(i)));
  }
  if (meant.size() == 1) return meant.front();
  if (meant.empty()) {
    return absl::NotFoundError(absl::StrCat("no link between '", words[0], "' and '", words[1],
                                            "'; see 'mccs-lab links'"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ambiguous link: ", meant.size(), " links between '", words[0], "' and '", words[1],
      "'; name one of ", absl::StrJoin(meant, ", ", [&](std::string* out, LinkId link) {
        out->append(topology.link(link).name);
      })));
}

absl::StatusOr<std::vector<uint64_t>> ReadLinkRates(const std::string& path,
                                                    const FabricPlan& plan) {
  std::vector<uint64_t> rates;
  for (const Cable& cable : plan.cables) rates.push_back(cable.rate_bps);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return rates;
  std::vector<std::pair<std::string, std::string>> changed;
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
  yaml.Field("bits_per_second", &changed, Need::kRequired);
  MCCS_RETURN_IF_ERROR(yaml.Finish());
  for (const auto& [name, text] : changed) {
    const std::optional<LinkId> link = plan.topology.FindLink(name);
    if (!link || !absl::SimpleAtoi(text, &rates[link->value()]))
      return absl::InternalError(absl::StrCat(path, ": invalid entry '", name, ": ", text,
                                              "': expected a link and its rate"));
  }
  return rates;
}

absl::Status WriteLinkRates(const std::string& path, const FabricPlan& plan,
                            const std::vector<uint64_t>& rates_bps) {
  const std::string partial = path + ".partial";
  {
    std::ofstream file(partial);
    file << "bits_per_second:\n";
    for (size_t i = 0; i < rates_bps.size(); ++i) {
      file << "  '" << plan.cables[i].name << "': '" << rates_bps[i] << "'\n";
    }
    file << std::flush;
    if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", partial));
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

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
  if (lab.nodes.empty()) {
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
