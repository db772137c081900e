#include "controller/kept_plan.h"

#include <iterator>
#include <utility>

#include "controller/flow_policies.h"
#include "controller/run_policies.h"

namespace mccs {

KeptPlan::Ground::Ground(const ObjectSet& objects, const ClusterView& view)
    : number(view.ground), reservations(ReservationsOf(objects)), fabrics(view) {}

Decisions KeptPlan::Decide(const ObjectSet& objects, const ClusterView& view) {
  Follow(objects, view);
  if (ground_->not_placed > 0) return DecideComplete(objects, view);
  Decisions decisions;
  auto communicator = view.communicators.begin();
  for (FlowPlanner::Planned& planned : ground_->planner.Solve(FlowPlanner::Which::kChanged)) {
    while (communicator->id != planned.id) ++communicator;
    AddDecision(objects, *communicator, StrategyOf(std::move(planned)), &decisions);
  }
  return decisions;
}

absl::StatusOr<strategy::Strategy> KeptPlan::Choose(const ObjectSet& objects,
                                                    const ClusterView& view, CommId id) {
  Follow(objects, view);
  const auto known = ground_->known.find(id);
  if (known == ground_->known.end() || !known->second.placed) return RunPolicyOf(id, objects, view);
  return StrategyOf(ground_->planner.SolveOne(id));
}

// Updates the planner's communicators to those of `view`.
void KeptPlan::Follow(const ObjectSet& objects, const ClusterView& view) {
  if (ground_ == nullptr || view.ground == 0 || ground_->number != view.ground)
    ground_ = std::make_unique<Ground>(objects, view);
  auto known = ground_->known.begin();
  const auto end = ground_->known.end();
  for (const CommunicatorView& communicator : view.communicators) {
    while (known != end && known->first < communicator.id) Forget(known++);
    if (known != end && known->first == communicator.id) {
      const auto same = known++;
      if (same->second.revision == communicator.revision) continue;
      Forget(same);
    }
    Learn(objects, view, communicator);
  }
  while (known != end) Forget(known++);
}

void KeptPlan::Learn(const ObjectSet& objects, const ClusterView& view,
                     const CommunicatorView& communicator) {
  Ground& ground = *ground_;
  Known known = {.revision = communicator.revision, .ports = ground.taken.PortsOf(communicator)};
  ground.taken.TakeAll(known.ports);
  const Object* policy = PolicyInForce(objects, communicator);
  if (!communicator.away && policy != nullptr && PlacesFlows(PolicyOf(*policy).policy)) {
    known.placed = PlaceBy(*policy, {objects, view, ground.fabrics, ground.reservations},
                           communicator, &ground.planner)
                       .ok();
  } else {
    ground.planner.AddFixed(communicator, communicator.strategy);
  }
  if (!known.placed) ++ground.not_placed;
  ground.known.emplace(communicator.id, std::move(known));
}

void KeptPlan::Forget(std::map<CommId, Known>::iterator known) {
  ground_->taken.GiveBack(known->second.ports);
  if (!known->second.placed) --ground_->not_placed;
  ground_->planner.Remove(known->first);
  ground_->known.erase(known);
}

}  // namespace mccs
