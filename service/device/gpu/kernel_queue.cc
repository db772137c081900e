#include "service/device/gpu/kernel_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/kernel_region.h"
#include "kernels/words.h"

namespace mccs {

void KernelQueue::Publish(uint64_t number, const kernels::Command& command,
                          std::span<const std::byte> short_form) {
  MCCS_CHECK(MayPublish(number));
  WriteShort(number, short_form);
  shared_.commands[published_ % kernels::kQueueCommands] = command;
  kernels::StoreWord(&shared_.published, ++published_);
  Ring();
}

void KernelQueue::WriteShort(uint64_t number, std::span<const std::byte> short_form) {
  const uint32_t flag = kernels::ShortFlag(number);
  // Flags begin again after 2^32 commands. No line may keep one.
  if (flag == 0) std::ranges::fill(shared_.short_command, kernels::LowLatencyLine{});
  if (flag == 0 || short_form.empty() || (number > 0 && !Reported(number - 1))) return;
  kernels::WriteLines(short_form.data(), short_form.size(), flag, shared_.short_command);
}

bool KernelQueue::Reported(uint64_t number) {
  if (finished_ > number) return true;
  // A tenant can write any value there.
  const uint64_t claimed = kernels::LoadWord(&shared_.finished);
  finished_ = std::max(finished_, std::min(claimed, published_));
  return finished_ > number;
}

void KernelQueue::Ring() { wire::AdvanceFence(kernels::BellOf(shared_), ++bell_); }

void KernelQueue::Stop() {
  if (std::exchange(stopped_, true)) return;
  kernels::StoreWord(&shared_.stopped, 1);
  Ring();
}

}  // namespace mccs
