// What drains mean for the cluster: which hosts and links take no new work, and who still uses
// them. Pure.
//
// A drain moves no rank: where jobs run is for whoever started them. A drained link gets no flow
// where there is another way (policies see ClusterView::links_drained). A drained host stays as it
// is for the communicators that use it; when none is left it is free.
#ifndef MCCS_CONTROLLER_DRAINS_H_
#define MCCS_CONTROLLER_DRAINS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/registry.h"
#include "proto/operator.pb.h"

namespace mccs {

// The drain of that host or link; null: there is none.
const Object* FindHostDrain(const ObjectSet& set, const std::string& host);
const Object* FindLinkDrain(const ObjectSet& set, const std::string& link);

// The name of a new object for `spec`, which nothing drains yet: one that no other Drain has.
// kAlreadyExists: somebody has given all such names away; the text has one of them.
absl::StatusOr<std::string> NameOfNewDrain(const ObjectSet& set, const DrainSpec& spec);

// Fills HostView::drained and ClusterView::links_drained.
void MarkDrained(const ObjectSet& set, ClusterView* view);

// What the request asks to be drained, as an object's spec. kInvalidArgument: neither a host nor a
// link, or no name.
absl::StatusOr<DrainSpec> ReadDrain(const control::DrainRequest& request);

// kNotFound: neither a daemon nor a Topology knows the host, or no Topology the link; the text
// names what is near.
absl::Status CheckIsThere(const DrainSpec& spec, const ObjectSet& set, const Registry& registry);

// Communicators with a rank on `host`, by id.
std::vector<CommId> UsersOfHost(const Registry& registry, const std::string& host);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_DRAINS_H_
