#include "kernels/host_kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/words.h"

namespace mccs::kernels {
namespace {

// Copied at once: about as long as a slice takes.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

}  // namespace

HostKernel::HostKernel(CommandQueue& queue, std::optional<uint64_t> done_value)
    : queue_(queue), done_value_(done_value), next_(LoadWord(&queue.finished)) {}

bool HostKernel::HasNext() const {
  if (LoadWord(&queue_.published) == next_) return false;
  const Command& command = queue_.commands[next_ % kQueueCommands];
  return !done_value_ || TakesCommand(*done_value_, command.done_value);
}

bool HostKernel::Advance() {
  if (LoadWord(&queue_.stopped) != 0) {
    programs_.clear();
    copies_ = 0;
    const uint64_t before = next_;
    while (HasNext()) ++next_;
    if (next_ != before) StoreWord(&queue_.finished, next_);
    return next_ != before;
  }
  if (idle() && !Begin()) return false;
  bool moved = copies_ > 0;
  if (copies_ > 0) CopyPiece(queue_.commands[next_ % kQueueCommands]);
  for (size_t i = 0; i < programs_.size();) {
    const Progress progress = programs_[i].Advance();
    moved |= progress != Progress::kBlocked;
    if (progress == Progress::kDone) {
      programs_.erase(programs_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (idle()) StoreWord(&queue_.finished, ++next_);
  return moved;
}

void HostKernel::CopyPiece(const Command& command) {
  const CopyRun& run = command.copy[copies_ - 1];
  const uint64_t bytes = std::min(kPieceBytes, run.bytes - copied_);
  std::memcpy(reinterpret_cast<std::byte*>(run.to) + copied_,
              reinterpret_cast<const std::byte*>(run.from) + copied_, bytes);
  copied_ += bytes;
  if (copied_ < run.bytes) return;
  copied_ = 0;
  --copies_;
}

bool HostKernel::Begin() {
  if (!HasNext()) return false;
  const Command& command = queue_.commands[next_ % kQueueCommands];
  const auto* binding = reinterpret_cast<const Binding*>(command.binding);
  const auto* runs = reinterpret_cast<const ProgramRun*>(command.runs);
  for (uint32_t i = 0; i < command.programs; ++i)
    programs_.emplace_back(OneThread(operands_), runs[i], *binding);
  copies_ = std::min(command.copies, kMostCopies);
  copied_ = 0;
  if (idle()) StoreWord(&queue_.finished, ++next_);
  return true;
}

}  // namespace mccs::kernels
