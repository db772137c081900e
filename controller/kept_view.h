// Caches the complete view for policies (controller/complete_view.h). Between calls only changed
// communicators are updated.
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
  // LIFETIME: both outlive this.
  KeptView(const Registry* registry, const StrategyMemory* strategies)
      : registry_(*registry), strategies_(*strategies) {}

  // The complete view under `objects`, with the paths in `probed`. The next call changes the
  // returned view.
  const ClusterView& Of(std::shared_ptr<const ObjectSet> objects,
                        std::shared_ptr<const ProbedPaths> probed);

 private:
  // Inputs of everything but communicators.
  struct Ground {
    std::shared_ptr<const ObjectSet> objects;
    std::shared_ptr<const ProbedPaths> probed;
    uint64_t hosts_revision = 0, remembered_revision = 0;

    friend bool operator==(const Ground&, const Ground&) = default;
  };

  // Adds, updates and removes communicators.
  void Renew();
  CommunicatorView Complete(CommId id) const;

  const Registry& registry_;
  const StrategyMemory& strategies_;
  Ground ground_;
  ClusterView view_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_KEPT_VIEW_H_
