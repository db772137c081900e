// Explains a communicator's strategy and the rates of its flows, for `mccsctl explain
// communicator`. Pure.
#ifndef MCCS_CONTROLLER_API_EXPLANATION_H_
#define MCCS_CONTROLLER_API_EXPLANATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/coordinator/cluster_state.h"
#include "controller/objects/object.h"
#include "controller/view/cluster_view.h"
#include "proto/operator.pb.h"

namespace mccs {

// Data from the registry, copied so that its lock is released before the explanation is computed.
struct ExplanationInput {
  ClusterView view;  // applied strategies, with the source ports that lanes report
  CommId id;
  control::v1::CommunicatorSummary summary;
  std::vector<agent::v1::Report> reports;  // by host
  int64_t report_every_ns = 0;
};

// Errors as in FindCommunicator (controller/api/operator_view.h).
absl::StatusOr<ExplanationInput> GatherExplanation(const ClusterState& state,
                                                   const std::string& prefix, MonotonicNs now);

// Expected rate of a flow: its weighted max-min share if all flows send as much as they can
// (controller/policy/shares.h), over the links in `objects`. The client computes measured rates
// from two queries.
control::v1::Explanation Explain(const ExplanationInput& input, const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_EXPLANATION_H_
