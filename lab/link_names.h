// Finds a link of a topology by the words of a command line.
#ifndef MCCS_LAB_LINK_NAMES_H_
#define MCCS_LAB_LINK_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace mccs::lab {

// `words`: a link's name, or its two ends in any order; an end is a switch, a NIC ("h1/nic0") or a
// host. kNotFound; kInvalidArgument: several links match; the message lists their names.
absl::StatusOr<LinkId> FindLinkByWords(const Topology& topology,
                                       const std::vector<std::string>& words);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINK_NAMES_H_
