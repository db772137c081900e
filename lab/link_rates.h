// Current rates of a lab's links: those of the topology, overridden by `mccs-lab link rate`, which
// records them in a file in the lab's directory.
#ifndef MCCS_LAB_LINK_RATES_H_
#define MCCS_LAB_LINK_RATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/fabric_plan.h"

namespace mccs::lab {

// By link, in bits per second.
absl::StatusOr<std::vector<uint64_t>> ReadLinkRates(const std::string& path,
                                                    const FabricPlan& plan);

// ENSURES: atomic for readers.
absl::Status WriteLinkRates(const std::string& path, const FabricPlan& plan,
                            const std::vector<uint64_t>& rates_bps);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINK_RATES_H_
