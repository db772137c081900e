// Commands of mccs-lab that show and change links, in a lab with a network.
#ifndef MCCS_LAB_LINK_COMMANDS_H_
#define MCCS_LAB_LINK_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/fabric_plan.h"
#include "lab/lab_state.h"
#include "topology/topology.h"

namespace mccs::lab {

// `words`: a link's name, or its two ends in any order; an end is a switch, a NIC ("h1/nic0") or a
// host. kNotFound; kInvalidArgument: several links match; the message lists their names.
absl::StatusOr<LinkId> FindLinkByWords(const Topology& topology,
                                       const std::vector<std::string>& words);

// Current rates of a lab's links: those of the topology, overridden by `mccs-lab link rate`, which
// records them in the file `path`. By link, in bits per second.
absl::StatusOr<std::vector<uint64_t>> ReadLinkRates(const std::string& path,
                                                    const FabricPlan& plan);

// ENSURES: atomic for readers.
absl::Status WriteLinkRates(const std::string& path, const FabricPlan& plan,
                            const std::vector<uint64_t>& rates_bps);

// Prints one line for each link and direction.
absl::Status ShowLinks(const Caller& caller, const std::string& name, bool as_json);

// `words`: see FindLinkByWords.
absl::Status SetLinkUp(const Caller& caller, const std::string& name,
                       const std::vector<std::string>& words, bool up);
// The last word is the rate: 50Mbit/s.
absl::Status SetLinkRate(const Caller& caller, const std::string& name,
                         std::vector<std::string> words);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINK_COMMANDS_H_
