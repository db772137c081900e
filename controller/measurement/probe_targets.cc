#include "controller/measurement/probe_targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "controller/planning/applied_policies.h"
#include "controller/view/flow.h"
#include "controller/view/source_ports.h"

namespace mccs {
namespace {

// Flows between two NICs that are to be placed.
struct Pair {
  Flow flow;  // one of them
  Fabric* fabric = nullptr;
  std::string host;
  SourcePortRange ports;
  size_t lanes = 0;
};

int SwitchesOn(const PathSet& paths) { return paths.fabric()->hops + 1; }

class TargetFinder {
 public:
  TargetFinder(const ObjectSet& objects, const ClusterView& view, const Fabrics& fabrics)
      : objects_(objects), view_(view), fabrics_(fabrics) {}

  std::vector<ProbeTarget> Run() && {
    for (const CommunicatorView& communicator : view_.communicators) {
      if (SpecOf(SelectPolicy(objects_, communicator)).Decides(PolicyDecision::kFlows))
        AddPairs(communicator);
    }
    if (pairs_.empty()) return {};
    for (const CommunicatorView& communicator : view_.communicators) AddLanes(communicator);
    for (const auto& [key, pair] : pairs_) AddCandidates(key, pair);
    return std::move(targets_);
  }

 private:
  using PairKey = FiveTuple;  // with source port 0

  // Flows whose paths can be probed and are not unique.
  std::vector<Flow> FlowsToProbe(const CommunicatorView& communicator, Fabric** fabric) const {
    const auto hosts = HostsOf(fabrics_, communicator);
    auto flows = FlowsOf(communicator, communicator.strategy, hosts);
    if (!flows.ok() || flows->empty()) return {};
    *fabric = hosts[0]->fabric;
    SourcePortMap& ports = (*fabric)->ports();
    if (!ports.ByProbe()) return {};
    std::erase_if(*flows, [&](const Flow& flow) {
      return (*fabric)->paths().Between(flow.from_nic, flow.to_nic).size() < 2 ||
             !ports.TupleOf(flow.Ends()).ok();
    });
    return *std::move(flows);
  }

  void AddPairs(const CommunicatorView& communicator) {
    Fabric* fabric = nullptr;
    for (const Flow& flow : FlowsToProbe(communicator, &fabric)) {
      fabrics_in_use_.insert(fabric);
      Pair& pair = pairs_[*fabric->ports().TupleOf(flow.Ends())];
      ++pair.lanes;
      if (pair.fabric != nullptr) continue;
      pair.flow = flow;
      pair.fabric = fabric;
      pair.host = communicator.hosts[flow.from];
      pair.ports = PortsOf(communicator, *fabric);
    }
  }

  SourcePortRange PortsOf(const CommunicatorView& communicator, const Fabric& fabric) const {
    const SourcePortRange& candidates = fabric.topology().source_ports().candidates;
    const auto& limits = SpecOf(SelectPolicy(objects_, communicator)).parameters.source_ports;
    return limits ? candidates.Common(*limits) : candidates;
  }

  void AddLanes(const CommunicatorView& communicator) {
    Fabric* fabric = nullptr;
    for (const Flow& flow : FlowsToProbe(communicator, &fabric)) {
      if (flow.source_port == 0 || !fabrics_in_use_.contains(fabric)) continue;
      FiveTuple tuple = *fabric->ports().TupleOf(flow.Ends());
      tuple.source_port = flow.source_port;
      Add(communicator.hosts[flow.from], tuple, flow, fabric, /*in_use=*/true);
    }
  }

  void AddCandidates(const PairKey& key, const Pair& pair) {
    if (pair.ports.first > pair.ports.last) return;
    const auto known = pair.fabric->ports().Probed(pair.flow.Ends());
    const auto paths = static_cast<size_t>(
        pair.fabric->paths().Between(pair.flow.from_nic, pair.flow.to_nic).size());
    std::vector<size_t> of_path(paths);
    size_t tried = 0;
    for (const auto& [port, path] : **known) {
      if (!pair.ports.Contains(port)) continue;
      ++tried;
      if (path) ++of_path[path->value()];
    }
    if (*std::min_element(of_path.begin(), of_path.end()) >= pair.lanes) return;
    const size_t limit = std::min(kPortsTriedPerPath * paths * pair.lanes, kMaxPortsTried);
    const size_t count = pair.ports.last - pair.ports.first + 1u;
    // Each pair of NICs starts at another port, so that lanes of one host find different ports.
    const uint64_t start =
        LaneHash(CommId(uint64_t{key.source_address} << 32 | key.destination_address), key.protocol,
                 key.destination_port);
    size_t added = 0;
    for (size_t i = 0; i < count && added < kPortsTriedAtATime && tried + added < limit; ++i) {
      FiveTuple tuple = key;
      tuple.source_port = static_cast<uint16_t>(pair.ports.first + (start + i) % count);
      if (view_.probed != nullptr && view_.probed->Find(tuple) != nullptr) continue;
      if (Add(pair.host, tuple, pair.flow, pair.fabric, /*in_use=*/false)) ++added;
    }
  }

  bool Add(const std::string& host, const FiveTuple& tuple, const Flow& flow, Fabric* fabric,
           bool in_use) {
    if (!wished_.insert(tuple).second) return false;
    const PathSet paths = fabric->paths().Between(flow.from_nic, flow.to_nic);
    targets_.push_back(
        {.host = host, .flow = tuple, .switches = SwitchesOn(paths), .in_use = in_use});
    return true;
  }

  const ObjectSet& objects_;
  const ClusterView& view_;
  const Fabrics& fabrics_;
  std::set<const Fabric*> fabrics_in_use_;
  std::map<PairKey, Pair> pairs_;
  std::set<FiveTuple> wished_;
  std::vector<ProbeTarget> targets_;
};

}  // namespace

std::vector<ProbeTarget> ProbeTargets(const ObjectSet& objects, const ClusterView& resolved,
                                      const Fabrics& fabrics) {
  const std::vector<const Object*> topologies = objects.OfKind(ObjectKind::kTopology);
  if (std::none_of(topologies.begin(), topologies.end(), [](const Object* object) {
        return TopologyOf(*object).topology->source_ports().kind == SourcePortMapping::Kind::kProbe;
      }))
    return {};
  return TargetFinder(objects, resolved, fabrics).Run();
}

bool SameLinks(const ObjectSet& before, const ObjectSet& after) {
  for (const ObjectKind kind : {ObjectKind::kTopology, ObjectKind::kDrain}) {
    const auto was = before.OfKind(kind), is = after.OfKind(kind);
    const bool same = std::equal(
        was.begin(), was.end(), is.begin(), is.end(),
        [](const auto* a, const auto* b) { return a->key == b->key && a->version == b->version; });
    if (!same) return false;
  }
  return true;
}

}  // namespace mccs
