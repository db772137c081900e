#include "lab/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs::lab {
namespace {

absl::StatusOr<std::vector<const DaemonState*>> ChosenHosts(const LabState& lab,
                                                            const std::vector<std::string>& names) {
  std::vector<const DaemonState*> chosen;
  if (names.empty()) {
    for (const DaemonState& host : lab.hosts()) chosen.push_back(&host);
  }
  for (const std::string& name : names) {
    MCCS_ASSIGN_OR_RETURN(const DaemonState* host, lab.FindHost(name));
    if (std::find(chosen.begin(), chosen.end(), host) != chosen.end())
      return absl::InvalidArgumentError(absl::StrCat("--hosts names ", name, " twice"));
    chosen.push_back(host);
  }
  return chosen;
}

}  // namespace

absl::StatusOr<std::vector<PlacedRank>> PlaceRanks(const LabState& lab,
                                                   const PlacementOptions& options) {
  MCCS_ASSIGN_OR_RETURN(const std::vector<const DaemonState*> hosts,
                        ChosenHosts(lab, options.hosts));
  std::vector<int32_t> room;
  int32_t most = 0;
  for (const DaemonState* host : hosts) {
    if (options.ranks_per_host > host->gpus) {
      return absl::InvalidArgumentError(absl::StrCat("--ranks-per-host ", options.ranks_per_host,
                                                     ": ", host->name, " has ", host->gpus,
                                                     " GPUs"));
    }
    room.push_back(options.ranks_per_host == 0 ? host->gpus : options.ranks_per_host);
    most += room.back();
  }
  if (options.ranks > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ranks ", options.ranks, ": ", hosts.size(),
        hosts.size() == 1 ? " host takes" : " hosts take", " at most ", most, " ranks"));
  }
  int32_t left = options.ranks == 0 ? most : options.ranks;
  std::vector<PlacedRank> placed;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const int32_t here = std::min(room[i], left);
    left -= here;
    for (int32_t local_rank = 0; local_rank < here; ++local_rank)
      placed.push_back({.host = hosts[i],
                        .host_index = static_cast<int32_t>(i),
                        .local_rank = local_rank,
                        .local_world_size = here});
  }
  return placed;
}

}  // namespace mccs::lab
