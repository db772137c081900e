#include "controller/planner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/policy/locality_ring.h"

namespace mccs {
namespace {

const CommunicatorView* Find(const ClusterView& view, CommId id) {
  for (const CommunicatorView& communicator : view.communicators) {
    if (communicator.id == id) return &communicator;
  }
  return nullptr;
}

bool IsActedOn(const PolicySpec& policy) {
  return policy.policy == kLocalityRingName && policy.sizes.IsAll();
}

std::string NameOf(const Object* policy) { return policy != nullptr ? policy->key.name : ""; }

bool SamePolicy(const Object* a, const Object* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->key == b->key && PolicyOf(*a).parameters == PolicyOf(*b).parameters;
}

// "h0 → h1 → h0".
std::string RingText(const CommunicatorView& communicator,
                     const strategy::ChannelStrategy& channel) {
  std::vector<std::string> hosts;
  for (int host : channel.ring()) {
    const bool known = host >= 0 && host < static_cast<int>(communicator.hosts.size());
    hosts.push_back(known ? communicator.hosts[host] : absl::StrCat("host ", host));
  }
  if (hosts.size() > 1) hosts.push_back(hosts[0]);
  return absl::StrJoin(hosts, " → ");
}

// What differs, in one line; empty: nothing does.
std::string Difference(const CommunicatorView& communicator, const strategy::Strategy& before,
                       const strategy::Strategy& after) {
  std::vector<std::string> rings, ports;
  for (int c = 0; c < after.channels_size() && c < before.channels_size(); ++c) {
    const std::string was = RingText(communicator, before.channels(c));
    const std::string will = RingText(communicator, after.channels(c));
    const auto& old_ports = before.channels(c).source_ports();
    const auto& new_ports = after.channels(c).source_ports();
    if (was != will) {
      rings.push_back(absl::StrCat("channel ", c, ": ", will, " instead of ", was));
    } else if (!std::equal(old_ports.begin(), old_ports.end(), new_ports.begin(),
                           new_ports.end())) {
      ports.push_back(absl::StrCat(c));
    }
  }
  if (!ports.empty()) {
    rings.push_back(absl::StrCat(ports.size() == 1 ? "channel " : "channels ",
                                 absl::StrJoin(ports, ", "), ": other source ports"));
  }
  return absl::StrJoin(rings, "; ");
}

}  // namespace

const Object* PolicyInForce(const ObjectSet& objects, const CommunicatorView& communicator) {
  return FindPolicy(objects, communicator.tenant, FormatCommId(communicator.id), IsActedOn);
}

absl::StatusOr<strategy::Strategy> ChooseStrategy(const ObjectSet& objects, const ClusterView& view,
                                                  CommId id) {
  const CommunicatorView* communicator = Find(view, id);
  const Object* policy = communicator != nullptr ? PolicyInForce(objects, *communicator) : nullptr;
  LocalityRingOptions options;
  if (policy != nullptr) {
    const PolicyParameters& parameters = PolicyOf(*policy).parameters;
    options.order = parameters.order;
    if (parameters.source_ports) {
      options.ports = {parameters.source_ports->first, parameters.source_ports->last};
    }
  }
  absl::StatusOr<strategy::Strategy> strategy = LocalityRing(view, id, options);
  if (strategy.ok() && policy != nullptr) {
    strategy->set_origin(absl::StrCat(kLocalityRingName, " by ", policy->key.name));
  }
  return strategy;
}

PlannedStrategies PlanStrategies(const ObjectSet& before, const ObjectSet& after,
                                 const ClusterView& view) {
  PlannedStrategies plan;
  size_t planned = 0;
  for (const CommunicatorView& communicator : view.communicators) {
    const Object* old_policy = PolicyInForce(before, communicator);
    const Object* new_policy = PolicyInForce(after, communicator);
    if (SamePolicy(old_policy, new_policy)) continue;
    if (++planned > kMaxPlanned) {
      ++plan.not_planned;
      continue;
    }
    const auto was = ChooseStrategy(before, view, communicator.id);
    const auto will = ChooseStrategy(after, view, communicator.id);
    std::string change;
    if (!will.ok()) {
      change = absl::StrCat("no strategy, and so its daemons' own: ",
                            std::string(will.status().message()));
    } else if (was.ok()) {
      change = Difference(communicator, *was, *will);
    } else {
      change = "a strategy, where there was none";
    }
    if (change.empty()) continue;
    plan.changed.push_back({communicator.id, communicator.tenant, NameOf(old_policy),
                            NameOf(new_policy), std::move(change)});
  }
  return plan;
}

std::string InForce(const Object& object) {
  switch (object.key.kind) {
    case ObjectKind::kTenant:
    case ObjectKind::kTopology:
      return "in part";
    case ObjectKind::kPolicy:
      return IsActedOn(PolicyOf(object)) ? "yes" : "not yet";
  }
  return "";
}

std::string NotActedOn(const Object& object) {
  switch (object.key.kind) {
    case ObjectKind::kTenant:
      return "A Tenant's uids and sockets choose the Policy of its communicators. Its cgroups, "
             "weight, "
             "guarantee, cap, priority and quotas are kept and not acted on yet.";
    case ObjectKind::kTopology:
      return "A Topology's hosts and links are what a Policy may name. Rings follow the positions "
             "that daemons report, and no flow is placed by it yet.";
    case ObjectKind::kPolicy:
      break;
  }
  const PolicySpec& policy = PolicyOf(object);
  if (IsActedOn(policy)) {
    return "A Policy is acted on when a communicator starts; those that run keep their strategy.";
  }
  if (policy.policy != kLocalityRingName) {
    return absl::StrCat("Policy ", policy.policy,
                        " is kept and not acted on yet; its communicators go by locality_ring.");
  }
  return "A Policy for some sizes only is kept and not acted on yet.";
}

}  // namespace mccs
