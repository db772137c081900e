// The complete view from which policies decide (controller/complete_view.h), kept from one question
// to the next: of communicators only those are looked at anew that have changed.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_KEPT_VIEW_H_
#define MCCS_CONTROLLER_KEPT_VIEW_H_

#include <cstdint>
#include <memory>

#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/registry.h"
#include "controller/strategy_memory.h"

namespace mccs {

class KeptView {
 public:
  // LIFETIME: what follows outlives this.
  KeptView(const Registry* registry, const StrategyMemory* strategies)
      : registry_(*registry), strategies_(*strategies) {}

  // Of all that the two know, under `objects`, with the ways that were `probed`. What it returns
  // changes with the next call.
  const ClusterView& Of(std::shared_ptr<const ObjectSet> objects,
                        std::shared_ptr<const ProbedPaths> probed);

 private:
  // Of all but communicators.
  struct Ground {
    std::shared_ptr<const ObjectSet> objects;
    std::shared_ptr<const ProbedPaths> probed;
    uint64_t hosts_revision = 0, remembered_revision = 0;

    friend bool operator==(const Ground&, const Ground&) = default;
  };

  // Looks at communicators that have come, gone or changed.
  void Renew();
  CommunicatorView Complete(CommId id) const;

  const Registry& registry_;
  const StrategyMemory& strategies_;
  Ground ground_;
  ClusterView view_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_KEPT_VIEW_H_
