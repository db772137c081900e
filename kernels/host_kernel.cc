#include "kernels/host_kernel.h"

#include <cstddef>

#include "kernels/words.h"

namespace mccs::kernels {

HostKernel::HostKernel(CommandQueue& queue) : queue_(queue), next_(LoadWord(&queue.finished)) {}

bool HostKernel::Advance() {
  if (LoadWord(&queue_.stopped) != 0) {
    const uint64_t published = LoadWord(&queue_.published);
    const bool stops = next_ != published;
    programs_.clear();
    if (stops) StoreWord(&queue_.finished, next_ = published);
    return stops;
  }
  if (programs_.empty() && !Begin()) return false;
  bool moved = false;
  for (size_t i = 0; i < programs_.size();) {
    const Progress progress = programs_[i].Advance();
    moved |= progress != Progress::kBlocked;
    if (progress == Progress::kDone) {
      programs_.erase(programs_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (programs_.empty()) StoreWord(&queue_.finished, ++next_);
  return moved;
}

bool HostKernel::Begin() {
  if (LoadWord(&queue_.published) == next_) return false;
  const Command& command = queue_.commands[next_ % kQueueCommands];
  const auto* binding = reinterpret_cast<const Binding*>(command.binding);
  const auto* runs = reinterpret_cast<const ProgramRun*>(command.runs);
  for (uint32_t i = 0; i < command.programs; ++i)
    programs_.emplace_back(OneThread(operands_), runs[i], *binding);
  if (programs_.empty()) StoreWord(&queue_.finished, ++next_);
  return true;
}

}  // namespace mccs::kernels
