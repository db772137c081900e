// What communicators have done and which links they take, for `mccsctl top`. Pure.
#ifndef MCCS_CONTROLLER_WORK_VIEW_H_
#define MCCS_CONTROLLER_WORK_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/lane_path.h"
#include "controller/objects/object_set.h"
#include "controller/registry.h"
#include "proto/operator.pb.h"

namespace mccs {

// All communicators with their lanes' ends, from the oldest to the youngest: what ListWork's
// reply is made of without holding the registry's lock.
struct WorkRecord {
  control::CommunicatorWork work;
  std::vector<LaneEnds> lanes;  // that are up
};
struct WorkGround {
  std::vector<WorkRecord> records;
  ClusterView view;  // hosts and what was probed, which may be null
};
WorkGround GatherWork(const Registry& registry, const ObjectSet& objects,
                      std::shared_ptr<const ProbedPaths> probed);

// With the links.
control::ListWorkReply ShowWork(WorkGround ground, const ObjectSet& objects);

// The ids of those of `work` of which a lane takes that link, in its order.
std::vector<std::string> UsersOfLink(const control::ListWorkReply& work, const std::string& link);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_WORK_VIEW_H_
