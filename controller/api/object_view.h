// Objects and their changes in the operators' API (proto/operator.proto). Pure.
#ifndef MCCS_CONTROLLER_API_OBJECT_VIEW_H_
#define MCCS_CONTROLLER_API_OBJECT_VIEW_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/change.h"
#include "controller/objects/object.h"
#include "controller/planning/planner.h"
#include "controller/state/catalog.h"
#include "controller/store/store.h"
#include "controller/view/cluster_view.h"
#include "proto/operator.pb.h"

namespace mccs {

// `work`: from work_view.h; names the users of drained links, and is not used for other kinds.
// kInvalidArgument: unknown kind. kNotFound: unknown name.
absl::StatusOr<control::v1::ListObjectsReply> ListObjects(
    const ObjectSet& set, const ClusterView& view, const control::v1::ListWorkReply& work,
    const control::v1::ListObjectsRequest& request);

// kInvalidArgument: unknown kind.
absl::StatusOr<std::vector<ObjectKey>> ReadKeys(const control::v1::DeleteRequest& request);

// `view`: before the change. `decisions`: from planner.h, for the objects after it. `rates`: from
// rate_changes.h.
control::v1::ChangeReply ShowChange(const Catalog::Outcome& outcome, const ClusterView& view,
                                    const Decisions& decisions,
                                    const std::map<CommId, std::string>& rates, bool dry_run);

control::v1::ListAuditReply ShowAudit(const std::vector<AuditEntry>& entries);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_OBJECT_VIEW_H_
