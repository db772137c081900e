#include "service/frontend/gpu_mappings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/frontend/tenant_text.h"

namespace mccs {

absl::StatusOr<uint64_t> GpuMappings::AddressOf(const Region& region) {
  const Region::KernelAccess* access = region.kernel_access();
  if (access == nullptr) {
    return absl::FailedPreconditionError(
        "the memory of a call cannot be used by kernels: its process gave no address for them");
  }
  const bool own = access->owner == place_.process;
  // Registered host memory is portable: it has one address on all GPUs.
  if (own &&
      (access->owner_device == place_.device || access->kind == wire::ExportKind::kHostMemory)) {
    return access->owner_address;
  }
  const auto [at, added] = mappings_.try_emplace(region.id().value());
  Mapping& mapping = at->second;
  if (!added) {
    if (!mapping.status.ok()) return mapping.status;
    return mapping.address;
  }
  mapping.number = std::exchange(next_number_, next_number_ + step_);
  mapping.alive = region.alive();
  regions_[mapping.number] = region.id().value();
  wire::MapMemory message{};
  message.header = {.kind = wire::MapMemory::kKind, .bytes = sizeof(message), .request = 0};
  message.memory = mapping.number;
  message.bytes = region.bytes();
  message.kind = access->kind;
  message.device = place_.device;
  message.own_address = own ? access->owner_address : 0;
  std::copy(access->handle.begin(), access->handle.end(), message.handle);
  const bool descriptor = access->kind != wire::ExportKind::kCudaIpc && !own;
  send_(std::as_bytes(std::span(&message, 1)), {&access->descriptor, descriptor ? 1u : 0u});
  Sweep();
  return 0;
}

absl::Status GpuMappings::OnMapped(const wire::MemoryMapped& message) {
  const auto region = regions_.find(message.memory);
  if (region == regions_.end() || mappings_.at(region->second).answered()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected MemoryMapped of memory ", message.memory));
  }
  Mapping& mapping = mappings_.at(region->second);
  if (message.status.error == wire::ErrorClass::kNone && message.address != 0) {
    mapping.address = message.address;
    return absl::OkStatus();
  }
  mapping.status = absl::UnavailableError(
      absl::StrCat("process ", place_.process, " cannot map memory for its kernels on CUDA device ",
                   place_.device, ": ", TextOf(message.status.text)));
  return absl::OkStatus();
}

absl::Status GpuMappings::OnUnmapped(const wire::MemoryUnmapped& message) {
  const auto region = regions_.find(message.memory);
  if (region == regions_.end() || !mappings_.at(region->second).withdrawn) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected MemoryUnmapped of memory ", message.memory));
  }
  mappings_.erase(region->second);
  regions_.erase(region);
  return absl::OkStatus();
}

uint64_t GpuMappings::StartCopy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (copies_.size() == kMostCopies) return 0;
  const uint64_t number = std::exchange(next_copy_, next_copy_ + step_);
  copies_.try_emplace(number);
  wire::CopyMemory message{};
  message.header = {.kind = wire::CopyMemory::kKind, .bytes = sizeof(message), .request = 0};
  message.copy = number;
  message.to = to;
  message.from = from;
  message.bytes = bytes;
  message.device = place_.device;
  send_(std::as_bytes(std::span(&message, 1)), {});
  return number;
}

absl::StatusOr<bool> GpuMappings::TakeCopied(uint64_t copy) {
  if (!alive_)
    return absl::UnavailableError(absl::StrCat("process ", place_.process, " has ended"));
  const auto found = copies_.find(copy);
  if (!found->second.result.has_value()) return false;
  const absl::Status status = *std::move(found->second.result);
  copies_.erase(found);
  if (!status.ok()) return status;
  return true;
}

void GpuMappings::ForgetCopy(uint64_t copy) {
  const auto found = copies_.find(copy);
  if (found == copies_.end()) return;  // the process has ended
  if (found->second.result.has_value()) {
    copies_.erase(found);
    return;
  }
  found->second.forgotten = true;
  wire::DropCopy message{};
  message.header = {.kind = wire::DropCopy::kKind, .bytes = sizeof(message), .request = 0};
  message.copy = copy;
  send_(std::as_bytes(std::span(&message, 1)), {});
}

absl::Status GpuMappings::OnCopied(const wire::MemoryCopied& message) {
  const auto copy = copies_.find(message.copy);
  if (copy == copies_.end() || copy->second.result.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected MemoryCopied of copy ", message.copy));
  }
  if (copy->second.forgotten) {
    copies_.erase(copy);
    return absl::OkStatus();
  }
  copy->second.result =
      message.status.error == wire::ErrorClass::kNone
          ? absl::OkStatus()
          : absl::UnavailableError(absl::StrCat("process ", place_.process,
                                                " cannot copy into its memory on CUDA device ",
                                                place_.device, ": ", TextOf(message.status.text)));
  return absl::OkStatus();
}

void GpuMappings::Withdraw(const Region& region, std::shared_ptr<void> token) {
  const auto mapping = mappings_.find(region.id().value());
  if (mapping == mappings_.end()) return;
  mapping->second.token = std::move(token);
  RequestUnmap(mapping->second);
}

void GpuMappings::RequestUnmap(Mapping& mapping) {
  if (std::exchange(mapping.withdrawn, true)) return;
  wire::UnmapMemory message{};
  message.header = {.kind = wire::UnmapMemory::kKind, .bytes = sizeof(message), .request = 0};
  message.memory = mapping.number;
  send_(std::as_bytes(std::span(&message, 1)), {});
}

void GpuMappings::Sweep() {
  for (size_t i = std::min(kSweptAtOnce, regions_.size()); i > 0; --i) {
    auto region = regions_.upper_bound(last_swept_);
    if (region == regions_.end()) region = regions_.begin();
    last_swept_ = region->first;
    Mapping& mapping = mappings_.at(region->second);
    if (mapping.alive.expired()) RequestUnmap(mapping);
  }
}

void GpuMappings::End() {
  alive_ = false;
  probe_.reset();
  mappings_.clear();
  regions_.clear();
  copies_.clear();
}

}  // namespace mccs
