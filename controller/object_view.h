// Objects and changes of them as operators see them (proto/operator.proto). Pure.
#ifndef MCCS_CONTROLLER_OBJECT_VIEW_H_
#define MCCS_CONTROLLER_OBJECT_VIEW_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/catalog.h"
#include "controller/cluster_view.h"
#include "controller/objects/change.h"
#include "controller/objects/object_set.h"
#include "controller/planner.h"
#include "controller/store/store.h"
#include "proto/operator.pb.h"

namespace mccs {

// `work`: of work_view.h; it says who uses a link that is drained, and of other kinds nothing.
// kInvalidArgument: no such kind. kNotFound: one of the names.
absl::StatusOr<control::ListObjectsReply> ListObjects(const ObjectSet& set, const ClusterView& view,
                                                      const control::ListWorkReply& work,
                                                      const control::ListObjectsRequest& request);

// kInvalidArgument: no such kind.
absl::StatusOr<std::vector<ObjectKey>> ReadKeys(const control::DeleteRequest& request);

// `view`: before the change. `decisions`: of planner.h, on the objects after it. `rates`: of
// rate_changes.h.
control::ChangeReply ShowChange(const Catalog::Outcome& outcome, const ClusterView& view,
                                const Decisions& decisions,
                                const std::map<CommId, std::string>& rates, bool dry_run);

control::ListAuditReply ShowAudit(const std::vector<AuditEntry>& entries);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECT_VIEW_H_
