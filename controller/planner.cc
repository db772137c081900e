#include "controller/planner.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/policy/locality_ring.h"

namespace mccs {
namespace {

bool IsActedOn(const PolicySpec& policy) {
  return policy.policy == kLocalityRingName && policy.sizes.IsAll();
}

std::string NameOf(const Object* policy) { return policy != nullptr ? policy->key.name : ""; }

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

bool SameButForItsName(strategy::Strategy a, strategy::Strategy b) {
  for (strategy::Strategy* each : {&a, &b}) {
    each->clear_epoch();
    each->clear_origin();
    for (strategy::ChannelStrategy& channel : *each->mutable_channels()) {
      const auto& ports = channel.source_ports();
      const bool none = std::all_of(ports.begin(), ports.end(), [](uint32_t p) { return p == 0; });
      if (none) channel.clear_source_ports();
    }
  }
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

// What differs, in one line; empty: nothing does.
std::string Difference(const CommunicatorView& communicator, const strategy::Strategy& before,
                       const strategy::Strategy& after) {
  if (SameButForItsName(before, after)) return "";
  std::vector<std::string> rings, ports;
  if (before.channels_size() != after.channels_size()) {
    rings.push_back(
        absl::StrCat(after.channels_size(), " channels instead of ", before.channels_size()));
  }
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
  return rings.empty() ? "other parameters" : absl::StrJoin(rings, "; ");
}

absl::StatusOr<strategy::Strategy> Choose(const ClusterView& view,
                                          const CommunicatorView& communicator,
                                          const Object* policy, SourcePorts* taken) {
  LocalityRingOptions options;
  if (policy != nullptr) {
    const PolicyParameters& parameters = PolicyOf(*policy).parameters;
    options.order = parameters.order;
    if (parameters.source_ports) {
      options.ports = {parameters.source_ports->first, parameters.source_ports->last};
    }
  }
  auto strategy = LocalityRing(view, communicator, options, taken);
  if (strategy.ok() && policy != nullptr) {
    strategy->set_origin(absl::StrCat(kLocalityRingName, " by ", policy->key.name));
  }
  return strategy;
}

}  // namespace

const Object* PolicyInForce(const ObjectSet& objects, const CommunicatorView& communicator) {
  return FindPolicy(objects, communicator.tenant, FormatCommId(communicator.id), IsActedOn);
}

absl::StatusOr<strategy::Strategy> ChooseStrategy(const ObjectSet& objects, const ClusterView& view,
                                                  CommId id) {
  SourcePorts taken;
  const CommunicatorView* subject = nullptr;
  for (const CommunicatorView& communicator : view.communicators) {
    if (communicator.id == id) {
      subject = &communicator;
    } else {
      taken.TakeAll(communicator);
    }
  }
  if (subject == nullptr) {
    return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(id)));
  }
  return Choose(view, *subject, PolicyInForce(objects, *subject), &taken);
}

Decisions Decide(const ObjectSet& objects, const ClusterView& view) {
  Decisions decisions;
  SourcePorts taken;
  for (const CommunicatorView& communicator : view.communicators) taken.TakeAll(communicator);
  for (const CommunicatorView& communicator : view.communicators) {
    const Object* policy = PolicyInForce(objects, communicator);
    taken.GiveBack(communicator);
    auto strategy = Choose(view, communicator, policy, &taken);
    if (!strategy.ok()) {
      taken.TakeAll(communicator);
      decisions.trouble.push_back(strategy.status());
      continue;
    }
    std::string change = Difference(communicator, communicator.strategy, *strategy);
    if (change.empty()) continue;
    decisions.changed.push_back({communicator.id, communicator.tenant, NameOf(policy),
                                 *std::move(strategy), std::move(change)});
  }
  return decisions;
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
  if (IsActedOn(policy)) return "";
  if (policy.policy != kLocalityRingName) {
    return absl::StrCat("Policy ", policy.policy,
                        " is kept and not acted on yet; its communicators go by locality_ring.");
  }
  return "A Policy for some sizes only is kept and not acted on yet.";
}

}  // namespace mccs
