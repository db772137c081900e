#include "bench/paper_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/cluster_views.h"
#include "topology/linux_multipath_hash.h"

namespace mccs {
namespace {

constexpr int kRacks = 24;
constexpr int kHostsPerRack = kPaperHosts / kRacks;
constexpr int kSpines = 16;
constexpr uint64_t kLinkBps = 200'000'000'000;

}  // namespace

std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping) {
  auto topology = std::make_shared<Topology>("paper-cluster");
  std::vector<SwitchId> spines;
  for (int s = 0; s < kSpines; ++s) spines.push_back(topology->AddSwitch(absl::StrCat("spine", s)));
  for (int r = 0; r < kRacks; ++r) {
    const RackId rack = topology->AddRack(absl::StrCat("r", r));
    const SwitchId leaf = topology->AddSwitch(absl::StrCat("leaf", r));
    for (int h = 0; h < kHostsPerRack; ++h) {
      const HostId host =
          topology->AddHost(absl::StrCat("h", r * kHostsPerRack + h), rack, kGpusPerHost);
      for (int n = 0; n < kGpusPerHost; ++n) {
        const NicId nic = topology->AddNic(host, absl::StrCat("nic", n), leaf, kLinkBps,
                                           absl::StrCat("10.", r, ".", h, ".", n));
        topology->SetNear(topology->host(host).gpus[n], nic);
      }
    }
    for (int s = 0; s < kSpines; ++s)
      topology->AddLink(absl::StrCat("leaf", r, "-spine", s), leaf, spines[s], kLinkBps);
  }
  if (mapping == SourcePortMapping::Kind::kRules) {
    topology->SetSourcePorts(RulesBySpine(*topology, kSpines, SourcePortMapping().candidates));
  } else {
    SourcePortMapping ports;
    ports.kind = mapping;
    ports.hash = {.seed = 7, .fields = kHashAllFields};
    topology->SetSourcePorts(std::move(ports));
  }
  return topology;
}

}  // namespace mccs
