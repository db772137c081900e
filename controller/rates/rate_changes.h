// Effect of a change of objects on communicators besides strategies: rates and priorities. Pure.
#ifndef MCCS_CONTROLLER_RATES_RATE_CHANGES_H_
#define MCCS_CONTROLLER_RATES_RATE_CHANGES_H_

#include <map>
#include <string>

#include "base/ids.h"
#include "controller/objects/object.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// The objects, and the cluster as agents report it, with current or planned strategies.
struct Situation {
  const ObjectSet& objects;
  const ClusterView& view;
};

// Changes by communicator, for those in both situations, as text: "fair share per host: 97.6
// Mbit/s → 37.6 Mbit/s". The rate is the fair share that `explain` shows. Ignores changes below
// 1 %.
std::map<CommId, std::string> RateChanges(const Situation& before, const Situation& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_RATE_CHANGES_H_
