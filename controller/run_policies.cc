#include "controller/run_policies.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/algorithm_rules.h"
#include "controller/policy/fair_flow.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/locality_ring.h"
#include "controller/policy/priority_flow.h"
#include "controller/policy/rank_order.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"

namespace mccs {
namespace {

constexpr std::string_view kPoliciesThatPlaceFlows[] = {kFairFlowName, kPriorityFlowName,
                                                        kSharesName, kTimeWindowsName};

bool PlacesFlows(std::string_view policy) {
  return std::find(std::begin(kPoliciesThatPlaceFlows), std::end(kPoliciesThatPlaceFlows),
                   policy) != std::end(kPoliciesThatPlaceFlows);
}

bool DecidesRings(const PolicySpec& policy) {
  return policy.policy == kLocalityRingName || policy.policy == kRankOrderName ||
         PlacesFlows(policy.policy);
}

class Run {
 public:
  // Null: all are decided for.
  Run(const ObjectSet& objects, const ClusterView& view, const CommunicatorView* only)
      : objects_(objects), view_(view), fabrics_(view), planner_(&fabrics_, &taken_) {
    for (const CommunicatorView& communicator : view.communicators) {
      taken_.TakeAll(communicator);
      subjects_.push_back({.communicator = &communicator,
                           .policy = PolicyInForce(objects, communicator),
                           .fixed = only != nullptr && only != &communicator});
      results_.push_back(communicator.strategy);
    }
  }

  std::vector<absl::StatusOr<strategy::Strategy>> Decide() {
    for (size_t i = 0; i < subjects_.size(); ++i) {
      const Subject& subject = subjects_[i];
      if (!subject.fixed && !IsToBePlaced(subject)) DecideRing(i, OriginOf(subject));
    }
    const bool any = std::any_of(subjects_.begin(), subjects_.end(), IsToBePlaced);
    if (any) PlaceFlows();
    for (size_t i = 0; i < subjects_.size(); ++i) {
      const Subject& subject = subjects_[i];
      if (subject.fixed || !results_[i].ok()) continue;
      PutRules(AlgorithmPolicies(objects_, *subject.communicator), &*results_[i]);
    }
    return std::move(results_);
  }

 private:
  struct Subject {
    const CommunicatorView* communicator;
    const Object* policy;
    bool fixed;
  };

  static bool IsToBePlaced(const Subject& subject) {
    return !subject.fixed && PlacesFlows(PolicyName(subject));
  }

  static std::string PolicyName(const Subject& subject) {
    return subject.policy != nullptr ? PolicyOf(*subject.policy).policy : kLocalityRingName;
  }
  static std::string OriginOf(const Subject& subject) {
    return subject.policy != nullptr
               ? absl::StrCat(PolicyName(subject), " by ", subject.policy->key.name)
               : PolicyName(subject);
  }
  static const PolicyParameters& ParametersOf(const Subject& subject) {
    static const auto& none = *new PolicyParameters;
    return subject.policy != nullptr ? PolicyOf(*subject.policy).parameters : none;
  }

  static int ChannelsPerNic(const Subject& subject) {
    return static_cast<int>(ParametersOf(subject).channels_per_nic.value_or(1));
  }

  // The Policy's, else those that the fabric's operator has for lanes.
  RingPortOptions PortsOf(const Subject& subject) const {
    const PolicyParameters& parameters = ParametersOf(subject);
    RingPortOptions options;
    options.seed = parameters.port_seed;
    const auto hosts = HostsOf(fabrics_, *subject.communicator);
    if (parameters.source_ports) {
      options.ports = {parameters.source_ports->first, parameters.source_ports->last};
    } else if (const auto fabric = CommonFabric(*subject.communicator, hosts); fabric.ok()) {
      const SourcePortRange& candidates = (*fabric)->topology().source_ports().candidates;
      options.ports = {candidates.first, candidates.last};
    }
    return options;
  }

  void DecideRing(size_t i, const std::string& origin) {
    const Subject& subject = subjects_[i];
    taken_.GiveBack(*subject.communicator);
    results_[i] =
        PolicyName(subject) == kRankOrderName
            ? RankOrder(fabrics_, *subject.communicator, PortsOf(subject), &taken_,
                        ChannelsPerNic(subject))
            : LocalityRing(view_, fabrics_, *subject.communicator,
                           {PortsOf(subject), ParametersOf(subject).order, ChannelsPerNic(subject)},
                           &taken_);
    if (results_[i].ok()) {
      results_[i]->set_origin(origin);
    } else {
      taken_.TakeAll(*subject.communicator);
    }
  }

  std::vector<Reservation> Reservations() const {
    std::vector<Reservation> reservations;
    for (const Object* object : objects_.OfKind(ObjectKind::kPolicy)) {
      const PolicySpec& policy = PolicyOf(*object);
      const bool reserves = policy.policy == kPriorityFlowName || policy.policy == kTimeWindowsName;
      if (!reserves || !IsActedOn(policy)) continue;
      reservations.push_back({policy.parameters.favoured, policy.parameters.reserved_links});
    }
    return reservations;
  }

  FairFlowOptions FlowOptionsOf(const Subject& subject,
                                const std::vector<Reservation>& reservations) const {
    const PolicyParameters& parameters = ParametersOf(subject);
    FairFlowOptions options;
    if (parameters.source_ports)
      options.flows.ports = {parameters.source_ports->first, parameters.source_ports->last};
    options.flows.avoid_links = parameters.avoid_links;
    options.flows =
        UnderReservations(std::move(options.flows), subject.communicator->owner.name, reservations);
    options.order = parameters.order;
    options.origin = OriginOf(subject);
    options.channels_per_nic = ChannelsPerNic(subject);
    return options;
  }

  void PlaceFlows() {
    const std::vector<Reservation> reservations = Reservations();
    for (size_t i = 0; i < subjects_.size(); ++i) {
      const Subject& subject = subjects_[i];
      if (!IsToBePlaced(subject)) {
        planner_.AddFixed(*subject.communicator,
                          results_[i].ok() ? *results_[i] : subject.communicator->strategy);
        continue;
      }
      const FairFlowOptions options = FlowOptionsOf(subject, reservations);
      const absl::Status status =
          AddFairFlow(view_, fabrics_, *subject.communicator, options, &planner_);
      if (status.ok()) continue;
      DecideRing(i, absl::StrCat(options.origin, ", with source ports as ", kLocalityRingName, ": ",
                                 std::string(status.message())));
    }
    for (FlowPlanner::Planned& planned : planner_.Solve()) {
      const auto subject = std::find_if(subjects_.begin(), subjects_.end(), [&](const Subject& s) {
        return s.communicator->id == planned.id;
      });
      if (planned.astray > 0) {
        absl::StrAppend(planned.strategy.mutable_origin(), ", but for ", planned.astray,
                        " lanes for whose paths there is no free port");
      }
      if (planned.unprobed > 0) {
        absl::StrAppend(planned.strategy.mutable_origin(), ", when the paths of ", planned.unprobed,
                        " lanes were still to be probed");
      }
      results_[subject - subjects_.begin()] = std::move(planned.strategy);
    }
  }

  const ObjectSet& objects_;
  const ClusterView& view_;
  const Fabrics fabrics_;
  SourcePorts taken_;
  FlowPlanner planner_;
  std::vector<Subject> subjects_;
  std::vector<absl::StatusOr<strategy::Strategy>> results_;
};

}  // namespace

bool IsActedOn(const PolicySpec& policy) {
  return policy.ChoosesAlgorithms() || DecidesRings(policy);
}

const Object* PolicyInForce(const ObjectSet& objects, const CommunicatorView& communicator) {
  return FindPolicy(objects, communicator.origin(), FormatCommId(communicator.id), DecidesRings);
}

bool PlacesFlowsOf(const ObjectSet& objects, const CommunicatorView& communicator) {
  const Object* policy = PolicyInForce(objects, communicator);
  return policy != nullptr && PlacesFlows(PolicyOf(*policy).policy);
}

std::vector<absl::StatusOr<strategy::Strategy>> RunPolicies(const ObjectSet& objects,
                                                            const ClusterView& view) {
  return Run(objects, view, nullptr).Decide();
}

absl::StatusOr<strategy::Strategy> RunPolicyOf(CommId id, const ObjectSet& objects,
                                               const ClusterView& view) {
  for (size_t i = 0; i < view.communicators.size(); ++i) {
    const CommunicatorView& subject = view.communicators[i];
    if (subject.id == id) return Run(objects, view, &subject).Decide()[i];
  }
  return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(id)));
}

}  // namespace mccs
