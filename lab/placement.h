// Assigns the ranks of a job to hosts.
#ifndef MCCS_LAB_PLACEMENT_H_
#define MCCS_LAB_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/lab_state.h"

namespace mccs::lab {

struct PlacedRank {
  const DaemonState* host = nullptr;  // LIFETIME: that of the LabState
  int32_t host_index = 0;             // among the hosts of the job
  int32_t local_rank = 0;
  int32_t local_world_size = 0;
};

struct PlacementOptions {
  int32_t ranks = 0;               // total; 0: as many as fit
  int32_t ranks_per_host = 0;      // 0: one per GPU of the host
  std::vector<std::string> hosts;  // in this order; empty: all, in the lab's order
};

// By rank; fills one host after the other. kInvalidArgument: the ranks do not fit. kNotFound: no
// such host.
absl::StatusOr<std::vector<PlacedRank>> PlaceRanks(const LabState& lab,
                                                   const PlacementOptions& options);

}  // namespace mccs::lab

#endif  // MCCS_LAB_PLACEMENT_H_
