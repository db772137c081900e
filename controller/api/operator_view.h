// Hosts and communicators in the operators' API (proto/operator.proto). Pure.
#ifndef MCCS_CONTROLLER_API_OPERATOR_VIEW_H_
#define MCCS_CONTROLLER_API_OPERATOR_VIEW_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/coordinator/cluster_state.h"
#include "proto/operator.pb.h"

namespace mccs {

// The worst state that any host reports; "forming" before the first report.
std::string StateOfCommunicator(const Registry& registry, const CommunicatorRecord& record);

// kInvalidArgument: `prefix` is empty, not hexadecimal, or matches several communicators (the
// message names them). kFailedPrecondition: it matches only one that is recovered but not announced
// yet. kNotFound: it matches none.
absl::StatusOr<CommId> FindCommunicator(const ClusterState& state, const std::string& prefix);

control::v1::CommunicatorSummary Summarize(const ClusterState& state, CommId id,
                                           const CommunicatorRecord& record, MonotonicNs now);

// Hosts sorted by pod, rack and name. `unix_s`: the time of day, which certificates are compared
// with; 0: they are not.
control::v1::ListHostsReply ListHosts(const ClusterState& state, MonotonicNs now,
                                      int64_t unix_s = 0);

// Communicators from the oldest to the youngest, then recovered ones that are not announced yet.
control::v1::ListCommunicatorsReply ListCommunicators(const ClusterState& state, MonotonicNs now);

// Errors as in FindCommunicator.
absl::StatusOr<control::v1::CommunicatorDetail> DescribeCommunicator(const ClusterState& state,
                                                                     const std::string& prefix,
                                                                     MonotonicNs now);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_OPERATOR_VIEW_H_
