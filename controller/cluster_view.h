// What a policy sees: the cluster at one moment, as plain values. Policies are pure functions of
// it.
#ifndef MCCS_CONTROLLER_CLUSTER_VIEW_H_
#define MCCS_CONTROLLER_CLUSTER_VIEW_H_

#include <string>
#include <vector>

#include "base/ids.h"
#include "proto/strategy.pb.h"
#include "topology/position.h"

namespace mccs {

struct HostView {
  Position position;  // position.host is its name
  int gpus = 0;
  bool ready = false;  // its agent is connected
};

struct CommunicatorView {
  CommId id;
  std::string tenant;
  std::vector<std::string> hosts;  // by position in the strategy's rings
  strategy::Strategy strategy;     // proposed last, else as announced
};

// Both lists in a fixed order: hosts by position, communicators by id.
struct ClusterView {
  std::vector<HostView> hosts;
  std::vector<CommunicatorView> communicators;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CLUSTER_VIEW_H_
