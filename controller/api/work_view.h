// Completed work and used links of communicators, for `mccsctl top`. Pure.
#ifndef MCCS_CONTROLLER_API_WORK_VIEW_H_
#define MCCS_CONTROLLER_API_WORK_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/coordinator/cluster_state.h"
#include "controller/view/cluster_view.h"
#include "controller/view/flow.h"
#include "proto/operator.pb.h"

namespace mccs {

// Input of ListWork's reply, copied so that the registry's lock is released early: all
// communicators with their lanes' ends, the oldest first.
struct WorkRecord {
  control::v1::CommunicatorWork work;
  std::vector<LaneEnds> lanes;  // connected ones
};
struct WorkInput {
  std::vector<WorkRecord> records;
  int64_t report_every_ns = 0;
  ClusterView view;  // hosts and probed paths, which may be null
};
WorkInput GatherWork(const ClusterState& state, std::shared_ptr<const ProbedPaths> probed);

// Adds the links.
control::v1::ListWorkReply ShowWork(WorkInput input, const ObjectSet& objects);

// The ids in `work` with a lane over that link, in its order.
std::vector<std::string> UsersOfLink(const control::v1::ListWorkReply& work,
                                     const std::string& link);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_WORK_VIEW_H_
