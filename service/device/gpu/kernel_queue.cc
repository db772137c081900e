#include "service/device/gpu/kernel_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/kernel_region.h"
#include "kernels/words.h"

namespace mccs {

void KernelQueue::Publish(uint64_t number, const kernels::Command& command) {
  MCCS_CHECK(MayPublish(number));
  shared_.commands[published_ % kernels::kQueueCommands] = command;
  kernels::StoreWord(&shared_.published, ++published_);
  Ring();
}

bool KernelQueue::Finished(uint64_t number) {
  if (finished_ > number) return true;
  // A tenant can write any value there.
  const uint64_t claimed = kernels::LoadWord(&shared_.finished);
  finished_ = std::max(finished_, std::min(claimed, published_));
  return finished_ > number || !alive();
}

void KernelQueue::Ring() { wire::AdvanceFence(kernels::BellOf(shared_), ++bell_); }

void KernelQueue::Stop() {
  if (std::exchange(stopped_, true)) return;
  kernels::StoreWord(&shared_.stopped, 1);
  Ring();
}

}  // namespace mccs
