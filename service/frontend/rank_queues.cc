#include "service/frontend/rank_queues.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<RankQueues> RankQueues::Make(GpuAddressSpace* process) {
  RankQueues queues;
  if (process == nullptr) return queues;
  queues.process_ = process;
  MCCS_ASSIGN_OR_RETURN(queues.memory_,
                        SharedRegion::Create("mccs-kernels", sizeof(kernels::KernelRegion)));
  auto* region = reinterpret_cast<kernels::KernelRegion*>(queues.memory_.data());
  region->header = {.magic = wire::kFencePageMagic, .bytes = queues.memory_.bytes()};
  return queues;
}

absl::StatusOr<KernelCall> RankQueues::At(Queues& queues, uint32_t slot, size_t slots,
                                          uint64_t done_value) {
  if (process_ == nullptr || !served_) return KernelCall{};
  if (slot >= slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("no kernels run at slot ", slot, ": expected 0 to ", slots - 1));
  }
  if (queues.size() <= slot) queues.resize(slot + 1);
  if (queues[slot] == nullptr) {
    auto* region = reinterpret_cast<kernels::KernelRegion*>(memory_.data());
    queues[slot] = std::make_unique<KernelQueue>(
        *process_, &queues == &posted_ ? region->posted[slot] : region->captured[slot]);
    if (ended_) queues[slot]->End();
  }
  return KernelCall{.queue = queues[slot].get(), .done_value = done_value};
}

void RankQueues::End() {
  ended_ = true;
  for (const Queues* queues : {&posted_, &captured_}) {
    for (const std::unique_ptr<KernelQueue>& queue : *queues) {
      if (queue != nullptr) queue->End();
    }
  }
}

absl::Status RankQueues::EndPosted(uint32_t slot, uint64_t sequence) {
  MCCS_ASSIGN_OR_RETURN(const KernelCall kernel, PostedAt(slot, sequence));
  if (kernel.queue != nullptr) kernel.queue->EndFrom(sequence);
  return absl::OkStatus();
}

void RankQueues::RingPosted() {
  for (const std::unique_ptr<KernelQueue>& queue : posted_) {
    if (queue != nullptr) queue->Ring();
  }
}

void RankQueues::RingCaptured(uint32_t slot) {
  if (slot < captured_.size() && captured_[slot] != nullptr) captured_[slot]->Ring();
}

}  // namespace mccs
