#include "controller/planning/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/planning/applied_policies.h"
#include "controller/planning/measured_costs.h"
#include "controller/policy/avoided_pairs.h"
#include "controller/policy/rings.h"
#include "controller/state/resolved_view.h"
#include "controller/view/flow.h"
#include "proto/same_message.h"

namespace mccs {
namespace {

// Whether some host sends from another NIC, at any place in the ring.
bool HasOtherNics(const strategy::ChannelStrategy& before, const strategy::ChannelStrategy& after) {
  return std::any_of(after.ring().begin(), after.ring().end(), [&](int host) {
    return AddressOfHost(before, host) != AddressOfHost(after, host);
  });
}

// The differences in one line; empty: none.
std::string Difference(const CommunicatorView& communicator, const strategy::Strategy& before,
                       const strategy::Strategy& after) {
  if (IsSameStrategy(before, after)) return "";
  std::vector<std::string> rings, ports, nics;
  if (before.channels_size() != after.channels_size()) {
    rings.push_back(
        absl::StrCat("channels: ", before.channels_size(), " → ", after.channels_size()));
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
    if (HasOtherNics(before.channels(c), after.channels(c))) nics.push_back(absl::StrCat(c));
  }
  const auto add = [&](const std::vector<std::string>& channels, const char* what) {
    if (channels.empty()) return;
    rings.push_back(absl::StrCat(channels.size() == 1 ? "channel " : "channels ",
                                 absl::StrJoin(channels, ", "), ": ", what, " changed"));
  };
  add(nics, "NICs");
  add(ports, "source ports");
  if (!IsSameMessage(before.algorithms(), after.algorithms()))
    rings.push_back("algorithm rules or costs changed");
  return rings.empty() ? "parameters changed" : absl::StrJoin(rings, "; ");
}

std::vector<HostIndex> RingOrderOf(const PolicySpec& policy, const ClusterView& view,
                                   const CommunicatorView& communicator) {
  return AvoidUnreachablePairs(
      view, communicator,
      policy.type == PolicyKind::kRankOrder
          ? RankRingOrder(communicator)
          : LocalityRingOrder(view, communicator, policy.parameters.order));
}

// "fair_flow by NAME"; "locality_ring" without a Policy.
std::string OriginOf(const Object* policy) {
  const char* type = Name(SpecOf(policy).type);
  return policy != nullptr ? absl::StrCat(type, " by ", policy->key.name) : type;
}

// The strategy of `communicator` under `policy`, without source ports.
strategy::Strategy FrameOf(const ObjectSet& objects, const Object* policy, const ClusterView& view,
                           const Fabrics& fabrics, const CommunicatorView& communicator) {
  const PolicySpec& spec = SpecOf(policy);
  const std::vector<HostIndex> ring = RingOrderOf(spec, view, communicator);
  strategy::Strategy frame =
      MakeFrame(communicator, ring, HostsOf(fabrics, communicator), OriginOf(policy),
                static_cast<int>(spec.parameters.channels_per_nic.value_or(1)));
  PutRules(AlgorithmPolicies(objects, communicator), &frame);
  // If no ring avoids the pair, another strategy would not help.
  if (AvoidsUnreachablePair(view, communicator, ring)) UseRingsOnly(&frame);
  if (communicator.costs) PutCosts(*communicator.costs, &frame);
  return frame;
}

// The Policy's range of ports, else the Topology's candidates.
RingPortOptions RingPortsOf(const PolicyParameters& parameters, const Fabrics& fabrics,
                            const CommunicatorView& communicator) {
  RingPortOptions options = {.ports = kDefaultSourcePorts, .seed = parameters.port_seed};
  if (parameters.source_ports) {
    options.ports = *parameters.source_ports;
  } else if (const auto fabric = CommonFabric(communicator, HostsOf(fabrics, communicator));
             fabric.ok()) {
    options.ports = (*fabric)->topology().source_ports().candidates;
  }
  return options;
}

// Links that a Policy reserves are avoided by all but the tenants that it favours, and those are
// placed after the others: on reserved links while these have room, on others only if more is free
// there. The published policy restricts favoured flows to reserved paths.
FlowOptions FlowOptionsOf(const PolicyParameters& parameters, const std::string& tenant,
                          const std::vector<PolicyParameters>& reservations) {
  FlowOptions options = {.ports = parameters.source_ports, .avoid_links = parameters.avoid_links};
  for (const auto& reservation : reservations) {
    const auto& favoured = reservation.favoured;
    if (std::find(favoured.begin(), favoured.end(), tenant) != favoured.end()) {
      options.last = true;
    } else {
      options.avoid_links.insert(options.avoid_links.end(), reservation.reserved_links.begin(),
                                 reservation.reserved_links.end());
    }
  }
  std::sort(options.avoid_links.begin(), options.avoid_links.end());
  return options;
}

// Its origin names what the planner could not satisfy.
strategy::Strategy StrategyOf(FlowPlanner::Planned planned) {
  if (planned.off_path > 0) {
    absl::StrAppend(planned.strategy.mutable_origin(), ", except ", planned.off_path,
                    " lanes without a free port for their path");
  }
  if (planned.unprobed > 0) {
    absl::StrAppend(planned.strategy.mutable_origin(), ", before the paths of ", planned.unprobed,
                    " lanes were probed");
  }
  return std::move(planned.strategy);
}

std::vector<PolicyParameters> ReservationsOf(const ObjectSet& objects) {
  std::vector<PolicyParameters> reservations;
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicyParameters& parameters = PolicyOf(*object).parameters;
    if (!parameters.favoured.empty()) reservations.push_back(parameters);
  }
  return reservations;
}

bool AnyPlacesFlows(const ObjectSet& objects) {
  const std::vector<const Object*> policies = objects.OfKind(ObjectKind::kPolicy);
  return std::any_of(policies.begin(), policies.end(), [](const Object* policy) {
    return PolicyOf(*policy).Decides(PolicyDecision::kFlows);
  });
}

// Adds nothing if the strategies differ only in epoch and origin.
void AddDecision(const CommunicatorView& communicator, absl::StatusOr<strategy::Strategy> strategy,
                 Decisions* decisions) {
  if (!strategy.ok()) {
    decisions->trouble.push_back(strategy.status());
    return;
  }
  std::string change = Difference(communicator, communicator.strategy, *strategy);
  if (change.empty()) return;
  decisions->changed.push_back({communicator.id, *std::move(strategy), std::move(change)});
}

}  // namespace

void PutStrategies(const Decisions& decisions, ClusterView* view) {
  auto communicator = view->communicators.begin();
  for (const Decision& decision : decisions.changed) {
    while (communicator->id != decision.id) ++communicator;
    communicator->strategy = decision.strategy;
  }
}

Decisions Decide(const ObjectSet& objects, const ClusterView& view) {
  return Planner().Decide(objects, ResolveView(view, objects));
}

Decisions Planner::Decide(const ObjectSet& objects, const ClusterView& view) {
  Update(objects, view);
  Strategies strategies;
  DecideRings(view, /*decides_flows=*/false, &strategies);
  DecideRings(view, /*decides_flows=*/true, &strategies);
  PlaceFlows(&strategies);
  RestorePorts(view);
  Decisions decisions;
  for (const CommunicatorView& communicator : view.communicators) {
    const auto found = strategies.find(communicator.id);
    if (found == strategies.end()) continue;
    AddDecision(communicator, std::move(found->second), &decisions);
  }
  return decisions;
}

absl::StatusOr<strategy::Strategy> Planner::DecideOne(const ObjectSet& objects,
                                                      const ClusterView& view, CommId id) {
  Update(objects, view);
  const auto found = state_->entries.find(id);
  if (found == state_->entries.end())
    return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(id)));
  const Entry& entry = found->second;
  if (entry.placed) return StrategyOf(state_->flows.SolveOne(id));
  const auto communicator =
      std::find_if(view.communicators.begin(), view.communicators.end(),
                   [&](const CommunicatorView& each) { return each.id == id; });
  state_->taken.Release(entry.ports);
  const absl::StatusOr<Ports> ports =
      ChooseRingPorts(*communicator, entry.frame, entry.port_options, &state_->taken);
  if (ports.ok()) state_->taken.Release(*ports);
  state_->taken.TakeAll(entry.ports);
  if (!ports.ok()) return ports.status();
  return WithRingPorts(entry.frame, *ports);
}

// For communicators that are not placed, and whose Policies place flows or not.
void Planner::DecideRings(const ClusterView& view, bool decides_flows, Strategies* strategies) {
  auto at = state_->entries.begin();
  for (const CommunicatorView& communicator : view.communicators) {
    Entry& entry = (at++)->second;
    if (entry.reconnecting || entry.placed || entry.decides_flows != decides_flows) continue;
    state_->taken.Release(entry.ports);
    absl::StatusOr<Ports> ports =
        ChooseRingPorts(communicator, entry.frame, entry.port_options, &state_->taken);
    if (!ports.ok()) {
      state_->taken.TakeAll(entry.ports);
      strategies->emplace(communicator.id, ports.status());
      continue;
    }
    if (entry.same_frame && *ports == entry.ports) continue;
    strategy::Strategy strategy = WithRingPorts(entry.frame, *ports);
    // Others are placed around its new flows.
    if (state_->places_flows && !decides_flows) state_->flows.AddFixed(communicator, strategy);
    strategies->emplace(communicator.id, std::move(strategy));
    entry.new_ports = *std::move(ports);
  }
}

void Planner::PlaceFlows(Strategies* strategies) {
  for (FlowPlanner::Planned& planned : state_->flows.Solve()) {
    const CommId id = planned.id;
    strategies->emplace(id, StrategyOf(std::move(planned)));
  }
}

// Undoes what DecideRings changed in the state.
void Planner::RestorePorts(const ClusterView& view) {
  auto at = state_->entries.begin();
  for (const CommunicatorView& communicator : view.communicators) {
    Entry& entry = (at++)->second;
    if (!entry.new_ports) continue;
    state_->taken.Release(*std::exchange(entry.new_ports, std::nullopt));
    state_->taken.TakeAll(entry.ports);
    if (state_->places_flows) state_->flows.AddFixed(communicator, communicator.strategy);
  }
}

Planner::State::State(const ObjectSet& objects, const ClusterView& view)
    : generation(view.generation),
      reservations(ReservationsOf(objects)),
      places_flows(AnyPlacesFlows(objects)),
      fabrics(view) {}

void Planner::Update(const ObjectSet& objects, const ClusterView& view) {
  if (state_ == nullptr || view.generation == 0 || state_->generation != view.generation)
    state_ = std::make_unique<State>(objects, view);
  auto entry = state_->entries.begin();
  const auto end = state_->entries.end();
  for (const CommunicatorView& communicator : view.communicators) {
    while (entry != end && entry->first < communicator.id) Remove(entry++);
    if (entry != end && entry->first == communicator.id) {
      const auto same = entry++;
      if (same->second.revision == communicator.revision) continue;
      Remove(same);
    }
    AddEntry(objects, view, communicator);
  }
  while (entry != end) Remove(entry++);
}

void Planner::AddEntry(const ObjectSet& objects, const ClusterView& view,
                       const CommunicatorView& communicator) {
  State& state = *state_;
  const Object* policy = SelectPolicy(objects, communicator);
  const PolicySpec& spec = SpecOf(policy);
  Entry entry = {.revision = communicator.revision,
                 .reconnecting = communicator.reconnecting,
                 .decides_flows = spec.Decides(PolicyDecision::kFlows),
                 .ports = state.taken.PortsOf(communicator)};
  state.taken.TakeAll(entry.ports);
  const auto make_frame = [&] {
    return FrameOf(objects, policy, view, state.fabrics, communicator);
  };
  absl::Status placed = absl::OkStatus();
  if (entry.decides_flows) {
    FlowOptions options =
        FlowOptionsOf(spec.parameters, communicator.owner.name, state.reservations);
    options.stays = communicator.reconnecting;
    placed = state.flows.Add(communicator, make_frame(), options);
  } else if (state.places_flows) {
    state.flows.AddFixed(communicator, communicator.strategy);
  }
  entry.placed = entry.decides_flows && placed.ok();
  if (!entry.placed) {
    entry.frame = make_frame();
    entry.same_frame = HasFrame(communicator.strategy, entry.frame);
    entry.port_options = RingPortsOf(spec.parameters, state.fabrics, communicator);
  }
  if (!placed.ok()) {
    absl::StrAppend(entry.frame.mutable_origin(), ", with source ports from ",
                    Name(PolicyKind::kLocalityRing), ": ", std::string(placed.message()));
  }
  state.entries.emplace(communicator.id, std::move(entry));
}

void Planner::Remove(std::map<CommId, Entry>::iterator entry) {
  state_->taken.Release(entry->second.ports);
  state_->flows.Remove(entry->first);
  state_->entries.erase(entry);
}

}  // namespace mccs
