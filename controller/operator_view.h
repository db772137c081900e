// The registry as operators see it (proto/operator.proto). Pure.
#ifndef MCCS_CONTROLLER_OPERATOR_VIEW_H_
#define MCCS_CONTROLLER_OPERATOR_VIEW_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/objects/object_set.h"
#include "controller/registry.h"
#include "controller/rollouts.h"
#include "controller/strategy_memory.h"
#include "proto/operator.pb.h"

namespace mccs {

// The worst that any host says; "starting" before the first report.
std::string StateOfCommunicator(const Registry& registry, const CommunicatorRecord& record);

// kInvalidArgument: `prefix` is empty, not hexadecimal, or fits several (they are named).
// kNotFound.
absl::StatusOr<CommId> FindCommunicator(const Registry& registry, const std::string& prefix);

control::CommunicatorSummary Summarize(const Registry& registry, const ObjectSet& objects,
                                       CommId id, const CommunicatorRecord& record,
                                       MonotonicNs now);

// `not_found` of FindCommunicator; of a communicator that is remembered alone kFailedPrecondition,
// which says so.
absl::Status ExplainAbsence(const absl::Status& not_found, const Remembered& remembered,
                            const std::string& prefix);

// Hosts in the order of pod, rack and name.
control::ListHostsReply ListHosts(const Registry& registry, const Remembered& remembered,
                                  const ObjectSet& objects, MonotonicNs now);

// Communicators from the oldest to the youngest, then those that are remembered alone.
control::ListCommunicatorsReply ListCommunicators(const Registry& registry,
                                                  const Remembered& remembered,
                                                  const ObjectSet& objects, MonotonicNs now);

// Errors as FindCommunicator's.
absl::StatusOr<control::CommunicatorDetail> DescribeCommunicator(const Registry& registry,
                                                                 const ObjectSet& objects,
                                                                 const Rollouts& rollouts,
                                                                 const std::string& prefix,
                                                                 MonotonicNs now);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OPERATOR_VIEW_H_
