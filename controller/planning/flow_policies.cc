#include "controller/planning/flow_policies.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/planning/run_policies.h"
#include "controller/policy/fair_flow.h"

namespace mccs {
namespace {

// For a communicator of Tenant `tenant`.
FairFlowOptions OptionsOf(const Object& policy, const std::string& tenant,
                          std::span<const Reservation> reservations) {
  const PolicyParameters& parameters = PolicyOf(policy).parameters;
  FairFlowOptions options;
  if (parameters.source_ports)
    options.flows.ports = {parameters.source_ports->first, parameters.source_ports->last};
  options.flows.avoid_links = parameters.avoid_links;
  options.flows = ApplyReservations(std::move(options.flows), tenant, reservations);
  options.order = parameters.order;
  options.origin = OriginOf(policy);
  options.channels_per_nic = ChannelsPerNic(parameters);
  return options;
}

}  // namespace

std::string OriginOf(const Object& policy) {
  return absl::StrCat(Name(PolicyOf(policy).type), " by ", policy.key.name);
}

int ChannelsPerNic(const PolicyParameters& parameters) {
  return static_cast<int>(parameters.channels_per_nic.value_or(1));
}

std::vector<Reservation> ReservationsOf(const ObjectSet& objects) {
  std::vector<Reservation> reservations;
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    if (policy.parameters.favoured.empty()) continue;
    reservations.push_back({policy.parameters.favoured, policy.parameters.reserved_links});
  }
  return reservations;
}

absl::Status PlaceBy(const Object& policy, const PlacementInput& input,
                     const CommunicatorView& communicator, FlowPlanner* planner) {
  const FairFlowOptions options = OptionsOf(policy, communicator.owner.name, input.reservations);
  strategy::Strategy frame = FairFlowFrame(input.view, input.fabrics, communicator, options);
  PutAlgorithms(input.objects, communicator, &frame);
  return planner->Add(communicator, std::move(frame), options.flows);
}

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

}  // namespace mccs
