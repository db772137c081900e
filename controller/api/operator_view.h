// The registry in the operators' API (proto/operator.proto). Pure.
#ifndef MCCS_CONTROLLER_API_OPERATOR_VIEW_H_
#define MCCS_CONTROLLER_API_OPERATOR_VIEW_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/objects/object_set.h"
#include "controller/state/recovered_strategies.h"
#include "controller/state/registry.h"
#include "controller/state/rollouts.h"
#include "proto/operator.pb.h"

namespace mccs {

// The worst state that any host reports; "starting" before the first report.
std::string StateOfCommunicator(const Registry& registry, const CommunicatorRecord& record);

// kInvalidArgument: `prefix` is empty, not hexadecimal, or matches several communicators (the
// message names them). kNotFound: it matches none.
absl::StatusOr<CommId> FindCommunicator(const Registry& registry, const std::string& prefix);

control::v1::CommunicatorSummary Summarize(const Registry& registry, const ObjectSet& objects,
                                           CommId id, const CommunicatorRecord& record,
                                           MonotonicNs now);

// Returns `not_found` (from FindCommunicator), or kFailedPrecondition with an explanation if the
// communicator is recovered but not announced yet.
absl::Status ExplainAbsence(const absl::Status& not_found, const RecoveredCommunicators& recovered,
                            const std::string& prefix);

// Hosts sorted by pod, rack and name.
control::v1::ListHostsReply ListHosts(const Registry& registry,
                                      const RecoveredCommunicators& recovered,
                                      const ObjectSet& objects, MonotonicNs now);

// Communicators from the oldest to the youngest, then recovered ones that are not announced yet.
control::v1::ListCommunicatorsReply ListCommunicators(const Registry& registry,
                                                      const RecoveredCommunicators& recovered,
                                                      const ObjectSet& objects, MonotonicNs now);

// Errors as in FindCommunicator.
absl::StatusOr<control::v1::CommunicatorDetail> DescribeCommunicator(const Registry& registry,
                                                                     const ObjectSet& objects,
                                                                     const Rollouts& rollouts,
                                                                     const std::string& prefix,
                                                                     MonotonicNs now);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_OPERATOR_VIEW_H_
