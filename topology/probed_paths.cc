#include "topology/probed_paths.h"

#include <utility>

namespace mccs {
namespace {

FiveTuple WithoutPort(FiveTuple flow) {
  flow.source_port = 0;
  return flow;
}

}  // namespace

void ProbedPaths::Set(const FiveTuple& flow, Hops hops) {
  flows_[WithoutPort(flow)][flow.source_port] = std::move(hops);
}

void ProbedPaths::Erase(const FiveTuple& flow) {
  const auto known = flows_.find(WithoutPort(flow));
  if (known == flows_.end()) return;
  known->second.erase(flow.source_port);
  if (known->second.empty()) flows_.erase(known);
}

const Hops* ProbedPaths::Find(const FiveTuple& flow) const {
  const ByPort& ports = PortsOf(flow);
  const auto known = ports.find(flow.source_port);
  return known != ports.end() ? &known->second : nullptr;
}

const ProbedPaths::ByPort& ProbedPaths::PortsOf(FiveTuple flow) const {
  static const auto& none = *new ByPort;
  const auto known = flows_.find(WithoutPort(flow));
  return known != flows_.end() ? known->second : none;
}

}  // namespace mccs
