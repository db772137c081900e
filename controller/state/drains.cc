#include "controller/state/drains.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/closest_word.h"

namespace mccs {
namespace {

template <typename Is>
const Object* FindDrain(const ObjectSet& set, Is is) {
  for (const Object* object : set.OfKind(ObjectKind::kDrain)) {
    if (is(DrainOf(*object))) return object;
  }
  return nullptr;
}

absl::Status UnknownName(const char* what, const std::string& name,
                         const std::vector<std::string>& all, const char* remedy) {
  return absl::NotFoundError(
      absl::StrCat("unknown ", what, " '", name, "'", Suggestion(name, all, remedy)));
}

}  // namespace

const Object* FindHostDrain(const ObjectSet& set, const std::string& host) {
  return FindDrain(set, [&](const DrainSpec& spec) { return spec.host == host; });
}

const Object* FindLinkDrain(const ObjectSet& set, const std::string& link) {
  return FindDrain(set, [&](const DrainSpec& spec) { return spec.link == link; });
}

absl::StatusOr<std::string> NameOfNewDrain(const ObjectSet& set, const DrainSpec& spec) {
  const std::string name = DrainName(spec);
  const Object* other = set.Find({ObjectKind::kDrain, name});
  if (other == nullptr) return name;
  std::string hashed = HashedDrainName(spec);
  if (set.Find({ObjectKind::kDrain, hashed}) == nullptr) return hashed;
  return absl::AlreadyExistsError(
      absl::StrCat(ToText(other->key), " is already for ", TargetText(DrainOf(*other)), "; for ",
                   TargetText(spec), " apply a Drain with another name"));
}

void MarkDrained(const ObjectSet& set, ClusterView* view) {
  std::set<std::string> hosts, links;
  for (const Object* object : set.OfKind(ObjectKind::kDrain)) {
    const DrainSpec& spec = DrainOf(*object);
    if (!spec.host.empty()) hosts.insert(spec.host);
    if (!spec.link.empty()) links.insert(spec.link);
  }
  for (HostView& host : view->hosts) host.drained = hosts.contains(host.position.host);
  view->links_drained.assign(links.begin(), links.end());
}

absl::StatusOr<DrainSpec> ReadDrain(const control::v1::DrainRequest& request) {
  DrainSpec spec;
  if (request.name().empty())
    return absl::InvalidArgumentError("the request has no name; name the host or link to drain");
  if (request.reason().size() > kLongestReason) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reason is too long: the limit is ", kLongestReason, " bytes"));
  }
  spec.reason = request.reason();
  if (request.kind() == "host") {
    spec.host = request.name();
  } else if (request.kind() == "link") {
    spec.link = request.name();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", request.kind(), "' cannot be drained: expected host or link"));
  }
  return spec;
}

absl::Status CheckExists(const DrainSpec& spec, const ObjectSet& set, const Registry& registry) {
  std::vector<std::string> hosts, links;
  for (const auto& [name, record] : registry.hosts()) hosts.push_back(name);
  for (const Object* object : set.OfKind(ObjectKind::kTopology)) {
    const Topology& topology = *TopologyOf(*object).topology;
    for (const Topology::Host& host : topology.hosts()) hosts.push_back(host.name);
    for (const Topology::Link& link : topology.links()) links.push_back(link.name);
  }
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (!spec.host.empty() && !has(hosts, spec.host)) {
    return UnknownName("host", spec.host, hosts,
                       "correct the name, start its daemon, or apply a Topology that has it");
  }
  if (!spec.link.empty() && !has(links, spec.link)) {
    return UnknownName("link", spec.link, links,
                       "correct the name, or apply a Topology that has it");
  }
  return absl::OkStatus();
}

std::vector<CommId> UsersOfHost(const Registry& registry, const std::string& host) {
  std::vector<CommId> users;
  for (const auto& [id, record] : registry.communicators()) {
    const auto& hosts = record.announced.hosts();
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) users.push_back(id);
  }
  return users;
}

}  // namespace mccs
