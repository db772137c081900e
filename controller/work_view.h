// What communicators have done and which links they take, for `mccsctl top`. Pure.
#ifndef MCCS_CONTROLLER_WORK_VIEW_H_
#define MCCS_CONTROLLER_WORK_VIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/objects/object_set.h"
#include "controller/policy/fabric.h"
#include "controller/registry.h"
#include "proto/operator.pb.h"

namespace mccs {

// One lane, as its two ends see it.
struct LaneEnds {
  std::string from, to;       // names of hosts
  std::string local, remote;  // "address:port"
};

// Which links flows take, by the operator's Topologies.
class LinkFinder {
 public:
  // `probed` may be null. LIFETIME: what `objects` holds outlives this.
  LinkFinder(const ObjectSet& objects, std::shared_ptr<const ProbedPaths> probed);

  // Adds the names of the links that the lane takes. False, and nothing is added: no Topology has
  // both hosts, or its ways cannot be told (addresses that it does not have, source ports that were
  // not probed).
  bool Add(const LaneEnds& lane, std::set<std::string>* links);

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

// All communicators with their lanes' ends, from the oldest to the youngest: what ListWork makes
// its reply of without holding the registry's lock.
struct WorkRecord {
  control::CommunicatorWork work;
  std::vector<LaneEnds> lanes;  // that are up
};
std::vector<WorkRecord> ListWork(const Registry& registry, const ObjectSet& objects);

// With the links. `probed` may be null.
control::ListWorkReply ShowWork(std::vector<WorkRecord> records, const ObjectSet& objects,
                                std::shared_ptr<const ProbedPaths> probed);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_WORK_VIEW_H_
