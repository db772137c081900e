#include "controller/planning/incremental_planner.h"

#include <iterator>
#include <utility>

#include "controller/planning/flow_policies.h"
#include "controller/planning/run_policies.h"

namespace mccs {

IncrementalPlanner::PlanState::PlanState(const ObjectSet& objects, const ClusterView& view)
    : number(view.generation), reservations(ReservationsOf(objects)), fabrics(view) {}

Decisions IncrementalPlanner::Decide(const ObjectSet& objects, const ClusterView& view) {
  Update(objects, view);
  if (state_->not_placed > 0) return DecideForResolvedView(objects, view);
  Decisions decisions;
  auto communicator = view.communicators.begin();
  for (FlowPlanner::Planned& planned : state_->planner.Solve(FlowPlanner::Which::kChanged)) {
    while (communicator->id != planned.id) ++communicator;
    AddDecision(objects, *communicator, StrategyOf(std::move(planned)), &decisions);
  }
  return decisions;
}

absl::StatusOr<strategy::Strategy> IncrementalPlanner::Choose(const ObjectSet& objects,
                                                              const ClusterView& view, CommId id) {
  Update(objects, view);
  const auto known = state_->known.find(id);
  if (known == state_->known.end() || !known->second.placed) return RunPolicyFor(id, objects, view);
  return StrategyOf(state_->planner.SolveOne(id));
}

// Updates the planner's communicators to those of `view`.
void IncrementalPlanner::Update(const ObjectSet& objects, const ClusterView& view) {
  if (state_ == nullptr || view.generation == 0 || state_->number != view.generation)
    state_ = std::make_unique<PlanState>(objects, view);
  auto known = state_->known.begin();
  const auto end = state_->known.end();
  for (const CommunicatorView& communicator : view.communicators) {
    while (known != end && known->first < communicator.id) Remove(known++);
    if (known != end && known->first == communicator.id) {
      const auto same = known++;
      if (same->second.revision == communicator.revision) continue;
      Remove(same);
    }
    AddEntry(objects, view, communicator);
  }
  while (known != end) Remove(known++);
}

void IncrementalPlanner::AddEntry(const ObjectSet& objects, const ClusterView& view,
                                  const CommunicatorView& communicator) {
  PlanState& state = *state_;
  CacheEntry known = {.revision = communicator.revision,
                      .ports = state.taken.PortsOf(communicator)};
  state.taken.TakeAll(known.ports);
  const Object* policy = SelectPolicy(objects, communicator);
  if (!communicator.reconnecting && policy != nullptr &&
      PolicyOf(*policy).Decides(PolicyDecision::kFlows)) {
    known.placed = PlaceBy(*policy, {objects, view, state.fabrics, state.reservations},
                           communicator, &state.planner)
                       .ok();
  } else {
    state.planner.AddFixed(communicator, communicator.strategy);
  }
  if (!known.placed) ++state.not_placed;
  state.known.emplace(communicator.id, std::move(known));
}

void IncrementalPlanner::Remove(std::map<CommId, CacheEntry>::iterator known) {
  state_->taken.Release(known->second.ports);
  if (!known->second.placed) --state_->not_placed;
  state_->planner.Remove(known->first);
  state_->known.erase(known);
}

}  // namespace mccs
