#include "service/device/gpu/kernel_queue.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "kernels/words.h"
#include "proto/fence_page.h"

namespace mccs {
namespace {

wire::FenceLine& BellOf(kernels::CommandQueue& queue) {
  static_assert(offsetof(kernels::CommandQueue, bell) == 0 &&
                offsetof(kernels::CommandQueue, published) == sizeof(wire::FenceLine));
  return reinterpret_cast<wire::FenceLine&>(queue.bell);
}

}  // namespace

uint64_t KernelQueue::Publish(const kernels::Command& command) {
  MCCS_CHECK(!full());
  shared_.commands[published_ % kernels::kQueueCommands] = command;
  kernels::StoreWord(&shared_.published, ++published_);
  Ring();
  return published_ - 1;
}

bool KernelQueue::Finished(uint64_t number) {
  if (finished_ > number) return true;
  // A tenant can write any value there.
  const uint64_t claimed = kernels::LoadWord(&shared_.finished);
  finished_ = std::max(finished_, std::min(claimed, published_));
  return finished_ > number || !process_.alive();
}

void KernelQueue::Ring() { wire::SignalFence(BellOf(shared_), ++bell_); }

void KernelQueue::Stop() {
  kernels::StoreWord(&shared_.stopped, 1);
  Ring();
}

}  // namespace mccs
