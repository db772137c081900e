#include "topology/guarantees.h"

namespace mccs {

std::vector<BrokenGuarantee> FindBrokenGuarantees(std::span<const double> capacity_bps,
                                                  std::span<const FlowDemand> flows) {
  std::vector<double> guaranteed(capacity_bps.size());
  for (const FlowDemand& flow : flows) {
    for (const ArcId arc : flow.path) guaranteed[arc.value()] += flow.guarantee_bps;
  }
  std::vector<BrokenGuarantee> broken;
  std::vector<size_t> place(capacity_bps.size());  // in `broken`, from 1; 0: none
  for (size_t arc = 0; arc < capacity_bps.size(); ++arc) {
    if (guaranteed[arc] <= capacity_bps[arc] * (1 + kRateTolerance)) continue;
    broken.push_back({.arc = ArcId(static_cast<int32_t>(arc)),
                      .guaranteed_bps = guaranteed[arc],
                      .capacity_bps = capacity_bps[arc],
                      .flows = {}});
    place[arc] = broken.size();
  }
  if (broken.empty()) return broken;
  for (size_t f = 0; f < flows.size(); ++f) {
    if (flows[f].guarantee_bps == 0) continue;
    for (const ArcId arc : flows[f].path) {
      if (place[arc.value()] != 0) broken[place[arc.value()] - 1].flows.push_back(f);
    }
  }
  return broken;
}

}  // namespace mccs
