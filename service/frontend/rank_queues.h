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
#include "service/device/gpu/kernel_call.h"
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

  // The kernel of call #`sequence` with this ready slot, or of a captured call with this captured
  // slot. kInvalidArgument: no such slot.
  absl::StatusOr<KernelCall> PostedAt(uint32_t slot, uint64_t sequence) {
    return At(posted_, slot, wire::kReadySlots, sequence);
  }
  absl::StatusOr<KernelCall> CapturedAt(uint32_t slot) {
    return At(captured_, slot, wire::kCapturedSlots, wire::kCapturedDone);
  }
  // The rank's kernels have ended, and no other one will run.
  void End();
  // The same for the kernels of one ready slot that wait for call #`sequence` or a later one.
  // kInvalidArgument: no such slot.
  absl::Status EndPosted(uint32_t slot, uint64_t sequence);
  // The kernel, if it can copy messages; else none.
  KernelCall ForMessages(const KernelCall& kernel) const {
    return copies_messages_ ? kernel : KernelCall{};
  }
  // A done word has advanced.
  void RingPosted();
  void RingCaptured(uint32_t slot);

  // The region's descriptor, to be sent to the shim; available once. Invalid: no queues.
  UniqueFd TakeFd() { return memory_.TakeFd(); }

 private:
  using Queues = std::vector<std::unique_ptr<KernelQueue>>;  // made at the first use

  absl::StatusOr<KernelCall> At(Queues& queues, uint32_t slot, size_t slots, uint64_t done_value);

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
