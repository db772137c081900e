#include "controller/planning/run_policies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/planning/algorithm_rules.h"
#include "controller/planning/flow_policies.h"
#include "controller/planning/measured_costs.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/locality_ring.h"
#include "controller/policy/rank_order.h"
#include "controller/view/flow.h"

namespace mccs {
namespace {

bool ChoosesRings(const PolicySpec& policy) { return policy.Decides(PolicyDecision::kRings); }

class Run {
 public:
  // `only` null: computes strategies for all communicators.
  Run(const ObjectSet& objects, const ClusterView& view, const CommunicatorView* only)
      : objects_(objects), view_(view), fabrics_(view), planner_(&fabrics_, &taken_) {
    for (const CommunicatorView& communicator : view.communicators) {
      taken_.TakeAll(communicator);
      subjects_.push_back(
          {.communicator = &communicator,
           .policy = SelectPolicy(objects, communicator),
           .fixed = only != nullptr ? only != &communicator : communicator.reconnecting});
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
    return std::move(results_);
  }

 private:
  struct Subject {
    const CommunicatorView* communicator;
    const Object* policy;
    bool fixed;
  };

  static bool IsToBePlaced(const Subject& subject) {
    return !subject.fixed && TraitsOf(KindOf(subject)).decides.Contains(PolicyDecision::kFlows);
  }

  static PolicyKind KindOf(const Subject& subject) {
    return subject.policy != nullptr ? PolicyOf(*subject.policy).type : PolicyKind::kLocalityRing;
  }
  static std::string OriginOf(const Subject& subject) {
    return subject.policy != nullptr ? mccs::OriginOf(*subject.policy)
                                     : Name(PolicyKind::kLocalityRing);
  }
  static const PolicyParameters& ParametersOf(const Subject& subject) {
    static const auto& none = *new PolicyParameters;
    return subject.policy != nullptr ? PolicyOf(*subject.policy).parameters : none;
  }

  static int ChannelsPerNic(const Subject& subject) {
    return mccs::ChannelsPerNic(ParametersOf(subject));
  }

  // The Policy's range of ports, else the Topology's candidates.
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
    taken_.Release(*subject.communicator);
    results_[i] =
        KindOf(subject) == PolicyKind::kRankOrder
            ? RankOrder(fabrics_, *subject.communicator, PortsOf(subject), &taken_,
                        ChannelsPerNic(subject))
            : LocalityRing(view_, fabrics_, *subject.communicator,
                           {PortsOf(subject), ParametersOf(subject).order, ChannelsPerNic(subject)},
                           &taken_);
    if (results_[i].ok()) {
      results_[i]->set_origin(origin);
      PutAlgorithms(objects_, *subject.communicator, &*results_[i]);
    } else {
      taken_.TakeAll(*subject.communicator);
    }
  }

  void PlaceFlows() {
    const std::vector<Reservation> reservations = ReservationsOf(objects_);
    for (size_t i = 0; i < subjects_.size(); ++i) {
      const Subject& subject = subjects_[i];
      if (!IsToBePlaced(subject)) {
        planner_.AddFixed(*subject.communicator,
                          results_[i].ok() ? *results_[i] : subject.communicator->strategy);
        continue;
      }
      const absl::Status status =
          PlaceBy(*subject.policy, {objects_, view_, fabrics_, reservations}, *subject.communicator,
                  &planner_);
      if (status.ok()) continue;
      DecideRing(
          i, absl::StrCat(OriginOf(subject), ", with source ports from ",
                          Name(PolicyKind::kLocalityRing), ": ", std::string(status.message())));
    }
    size_t i = 0;
    for (FlowPlanner::Planned& planned : planner_.Solve()) {
      while (subjects_[i].communicator->id != planned.id) ++i;
      results_[i] = StrategyOf(std::move(planned));
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

const Object* SelectPolicy(const ObjectSet& objects, const CommunicatorView& communicator) {
  return FindPolicy(objects, communicator.origin(), FormatCommId(communicator.id), ChoosesRings);
}

const Object* SelectPolicyForTenant(const ObjectSet& objects, const Object& tenant) {
  return FindPolicy(objects, &tenant, /*id=*/"", ChoosesRings);
}

bool PlacesFlowsOf(const ObjectSet& objects, const CommunicatorView& communicator) {
  const Object* policy = SelectPolicy(objects, communicator);
  return policy != nullptr && PolicyOf(*policy).Decides(PolicyDecision::kFlows);
}

void PutAlgorithms(const ObjectSet& objects, const CommunicatorView& communicator,
                   strategy::Strategy* strategy) {
  PutRules(AlgorithmPolicies(objects, communicator), strategy);
  if (communicator.costs) PutCosts(*communicator.costs, strategy);
}

std::vector<absl::StatusOr<strategy::Strategy>> RunPolicies(const ObjectSet& objects,
                                                            const ClusterView& view) {
  return Run(objects, view, nullptr).Decide();
}

absl::StatusOr<strategy::Strategy> RunPolicyFor(CommId id, const ObjectSet& objects,
                                                const ClusterView& view) {
  for (size_t i = 0; i < view.communicators.size(); ++i) {
    const CommunicatorView& subject = view.communicators[i];
    if (subject.id == id) return Run(objects, view, &subject).Decide()[i];
  }
  return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(id)));
}

}  // namespace mccs
