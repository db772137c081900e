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
  done_values_[published_ % kernels::kQueueCommands] = command.done_value;
  kernels::StoreWord(&shared_.published, ++published_);
  Ring();
}

void KernelQueue::WriteShort(uint64_t number, std::span<const std::byte> short_form) {
  const uint32_t flag = kernels::ShortFlag(number);
  // Flags begin again after 2^32 commands. No line may keep one.
  if (flag == 0) std::ranges::fill(shared_.short_command, kernels::LowLatencyLine{});
  if (flag == 0 || short_form.empty() || (number > 0 && !Finished(number - 1))) return;
  kernels::WriteLines(short_form.data(), short_form.size(), flag, shared_.short_command);
}

bool KernelQueue::Finished(uint64_t number) {
  if (finished_ > number) return true;
  // A tenant can write any value there.
  const uint64_t claimed = kernels::LoadWord(&shared_.finished);
  finished_ = std::max(finished_, std::min(claimed, published_));
  return finished_ > number || (number < published_ && !RunsCommand(number));
}

void KernelQueue::EndFrom(uint64_t done_value) {
  if (ended_from_.has_value() && kernels::TakesCommand(done_value, *ended_from_)) return;
  ended_from_ = done_value;
}

bool KernelQueue::Runs(uint64_t done_value) const {
  if (ended_ || !process_.alive()) return false;
  return !ended_from_.has_value() || !kernels::TakesCommand(done_value, *ended_from_);
}

bool KernelQueue::RunsCommand(uint64_t number) const {
  if (ended_ || !process_.alive()) return false;
  return finished_ > number || Runs(done_values_[number % kernels::kQueueCommands]);
}

void KernelQueue::Ring() { wire::AdvanceFence(kernels::BellOf(shared_), ++bell_); }

void KernelQueue::Stop() {
  if (std::exchange(stopped_, true)) return;
  kernels::StoreWord(&shared_.stopped, 1);
  Ring();
}

}  // namespace mccs
