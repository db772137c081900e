// What a change of objects makes of communicators beside their strategies: how fast they may send,
// and whose packets go first. Pure.
#ifndef MCCS_CONTROLLER_RATE_CHANGES_H_
#define MCCS_CONTROLLER_RATE_CHANGES_H_

#include <map>
#include <string>

#include "base/ids.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

// A cluster as agents say it is, with the strategies that communicators have or will have there,
// and what operators want of it.
struct Situation {
  const ObjectSet& objects;
  const ClusterView& view;
};

// By communicator that is in both and fares otherwise after than before, for people: "37.6 Mbps
// instead of 97.6 Mbps out of a host". What it should get is what `explain` says of its flows, if
// all send as much as they can; a hundredth more or less is no change.
std::map<CommId, std::string> RateChanges(const Situation& before, const Situation& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATE_CHANGES_H_
