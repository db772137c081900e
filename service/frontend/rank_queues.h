// The command queues of one rank (kernels/kernel_region.h): for the kernels of its streams and of
// its captured graphs.
//
// OWNER: the RankEndpoint. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_RANK_QUEUES_H_
#define MCCS_SERVICE_FRONTEND_RANK_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/shared_region.h"
#include "kernels/kernel_region.h"
#include "service/communicator/links/rank_port.h"
#include "service/device/gpu/kernel_queue.h"

namespace mccs {

class RankQueues {
 public:
  // `process`: whose kernels run plans; null: none do, and there are no queues. LIFETIME: it
  // outlives the queues.
  static absl::StatusOr<RankQueues> Make(GpuAddressSpace* process);

  GpuAddressSpace* process() const { return process_; }

  // Initially the rank's kernels take commands, and reach the memory of the other ranks here.
  void SetUse(const KernelUse& use) {
    served_ = use.role == wire::KernelRole::kRunsPlans;
    copies_messages_ = served_ && use.staged.empty();
  }

  // The queue of a ready slot, or of a captured slot; null: no kernel takes commands.
  // kInvalidArgument: no such slot.
  absl::StatusOr<KernelQueue*> PostedAt(uint32_t slot) {
    return At(posted_, slot, wire::kReadySlots);
  }
  absl::StatusOr<KernelQueue*> CapturedAt(uint32_t slot) {
    return At(captured_, slot, wire::kCapturedSlots);
  }
  // The rank's kernels have ended, and no other one will run.
  void End();
  // The queue, if its kernel can copy messages; else null.
  KernelQueue* ForMessages(KernelQueue* queue) const { return copies_messages_ ? queue : nullptr; }
  // A done word has advanced.
  void RingPosted();
  void RingCaptured(uint32_t slot);

  // The region's descriptor, to be sent to the shim; available once. Invalid: no queues.
  UniqueFd TakeFd() { return memory_.TakeFd(); }

 private:
  using Queues = std::vector<std::unique_ptr<KernelQueue>>;  // made at the first use

  absl::StatusOr<KernelQueue*> At(Queues& queues, uint32_t slot, size_t slots);

  GpuAddressSpace* process_ = nullptr;
  bool served_ = true;
  bool copies_messages_ = true;
  bool ended_ = false;
  SharedRegion memory_;
  Queues posted_;
  Queues captured_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_RANK_QUEUES_H_
