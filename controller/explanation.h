// Why a communicator runs as it does, and what its flows should get of the network and get: what
// `mccsctl explain communicator` shows. Pure.
#ifndef MCCS_CONTROLLER_EXPLANATION_H_
#define MCCS_CONTROLLER_EXPLANATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/registry.h"
#include "proto/operator.pb.h"

namespace mccs {

// What an explanation needs of the registry: copied, so that its lock is not held meanwhile.
struct ExplanationGround {
  ClusterView view;  // strategies in force, with the source ports that lanes have as reported
  CommId id;
  control::CommunicatorSummary summary;
  std::vector<agent::Lane> lanes;    // of all its hosts, by host
  std::vector<int64_t> measured_ns;  // of each lane: on its host's clock
};

// Errors as FindCommunicator's (controller/operator_view.h).
absl::StatusOr<ExplanationGround> GatherExplanation(const Registry& registry,
                                                    const ObjectSet& objects,
                                                    const std::string& prefix, MonotonicNs now);

// What flows should get is their weighted max-min share if all flows of the cluster send as much
// as they can (controller/policy/shares.h), with the links that `objects` know. What they got is
// left to whoever asks twice.
control::Explanation Explain(const ExplanationGround& ground, const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_EXPLANATION_H_
