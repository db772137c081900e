// The effect of drains on the cluster: which hosts and links take no new work, and which
// communicators still use them. Pure.
//
// A drain moves no rank: the job's owner decides where it runs. A drained link gets no flow if
// another path exists (ClusterView::links_drained). Communicators on a drained host continue; the
// host is free when none is left.
#ifndef MCCS_CONTROLLER_STATE_DRAINS_H_
#define MCCS_CONTROLLER_STATE_DRAINS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object.h"
#include "controller/state/registry.h"
#include "controller/view/cluster_view.h"
#include "proto/operator.pb.h"

namespace mccs {

// The drain of that host or link; null: none.
const Object* FindHostDrain(const ObjectSet& set, const std::string& host);
const Object* FindLinkDrain(const ObjectSet& set, const std::string& link);

// A name for a new Drain object for `spec` that no other Drain has. kAlreadyExists: all such names
// are taken; the message names one of them.
absl::StatusOr<std::string> NameOfNewDrain(const ObjectSet& set, const DrainSpec& spec);

// Fills HostView::drained and ClusterView::links_drained.
void MarkDrained(const ObjectSet& set, ClusterView* view);

// The requested drain as an object's spec. kInvalidArgument: neither a host nor a link, or an empty
// name.
absl::StatusOr<DrainSpec> ReadDrain(const control::v1::DrainRequest& request);

// kNotFound: neither a daemon nor a Topology knows the host, or no Topology has the link; the
// message names similar ones.
absl::Status CheckExists(const DrainSpec& spec, const ObjectSet& set, const Registry& registry);

// Communicators with a rank on `host`, by id.
std::vector<CommId> UsersOfHost(const Registry& registry, const std::string& host);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_DRAINS_H_
