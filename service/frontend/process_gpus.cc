#include "service/frontend/process_gpus.h"

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<GpuMappings*> ProcessGpus::On(const std::string& gpu, int32_t device) {
  for (const auto& known : gpus_) {
    if (known->place().gpu == gpu) return known.get();
  }
  if (gpus_.size() == kMaxGpus) {
    return absl::ResourceExhaustedError(absl::StrCat("process ", process_, " uses more than ",
                                                     kMaxGpus, " GPUs, which is the limit"));
  }
  gpus_.push_back(std::make_unique<GpuMappings>(
      KernelPlace{.session = session_.value(), .process = process_, .device = device, .gpu = gpu},
      GpuMappings::Numbers{.first = gpus_.size() + 1, .step = kMaxGpus}, send_));
  return gpus_.back().get();
}

GpuMappings* ProcessGpus::Find(uint64_t number) const {
  const uint64_t gpu = (number - 1) % kMaxGpus;  // the inverse of Numbers
  return number == 0 || gpu >= gpus_.size() ? nullptr : gpus_[gpu].get();
}

absl::Status ProcessGpus::OnMapped(const wire::MemoryMapped& message) {
  if (GpuMappings* const gpu = Find(message.memory); gpu != nullptr) return gpu->OnMapped(message);
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected MemoryMapped of memory ", message.memory));
}

absl::Status ProcessGpus::OnUnmapped(const wire::MemoryUnmapped& message) {
  if (GpuMappings* const gpu = Find(message.memory); gpu != nullptr)
    return gpu->OnUnmapped(message);
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected MemoryUnmapped of memory ", message.memory));
}

absl::Status ProcessGpus::OnCopied(const wire::MemoryCopied& message) {
  if (GpuMappings* const gpu = Find(message.copy); gpu != nullptr) return gpu->OnCopied(message);
  return absl::InvalidArgumentError(absl::StrCat("unexpected MemoryCopied of copy ", message.copy));
}

void ProcessGpus::Withdraw(const Region& region, const std::shared_ptr<void>& token) {
  for (const auto& gpu : gpus_) gpu->Withdraw(region, token);
}

void ProcessGpus::End() {
  for (const auto& gpu : gpus_) gpu->End();
}

}  // namespace mccs
