// Which link of a topology a person means.
#ifndef MCCS_LAB_LINK_NAMES_H_
#define MCCS_LAB_LINK_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace mccs::lab {

// `words`: a link's own name, or its two ends in any order, an end being a switch, a NIC
// ("h1/nic0") or a host. kNotFound; kInvalidArgument where several links are meant, with their
// names.
absl::StatusOr<LinkId> FindLinkByWords(const Topology& topology,
                                       const std::vector<std::string>& words);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINK_NAMES_H_
