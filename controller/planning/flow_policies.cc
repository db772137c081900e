#include "controller/planning/flow_policies.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/planning/run_policies.h"
#include "controller/policy/fair_flow.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"

namespace mccs {
namespace {

constexpr std::string_view kPoliciesThatPlaceFlows[] = {kFairFlowName, kPriorityFlowName,
                                                        kSharesName, kTimeWindowsName};

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

bool PlacesFlows(std::string_view policy) {
  return std::find(std::begin(kPoliciesThatPlaceFlows), std::end(kPoliciesThatPlaceFlows),
                   policy) != std::end(kPoliciesThatPlaceFlows);
}

std::string OriginOf(const Object& policy) {
  return absl::StrCat(PolicyOf(policy).type, " by ", policy.key.name);
}

int ChannelsPerNic(const PolicyParameters& parameters) {
  return static_cast<int>(parameters.channels_per_nic.value_or(1));
}

std::vector<Reservation> ReservationsOf(const ObjectSet& objects) {
  std::vector<Reservation> reservations;
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    const bool reserves = policy.type == kPriorityFlowName || policy.type == kTimeWindowsName;
    if (!reserves) continue;
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
