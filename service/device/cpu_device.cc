#include "service/device/cpu_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/device/mapped_memory.h"
#include "service/device/mem_op_kernels.h"

namespace mccs {

CpuDevice::CpuDevice(const CpuDeviceOptions& options, std::unique_ptr<MemoryImporter> importer)
    : options_(options), importer_(std::move(importer)) {
  finished_.reserve(options_.max_in_flight);
}

CpuDevice::~CpuDevice() = default;

absl::StatusOr<std::unique_ptr<DeviceMemory>> CpuDevice::Import(const BufferExport& offer) {
  return importer_->Import(offer);
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CpuDevice::Allocate(size_t bytes) {
  return MappedMemory::Anonymous(bytes);
}

bool CpuDevice::Submit(const MemOp& op, MemToken token) {
  if (finished_.size() == options_.max_in_flight) return false;
  RunMemOp(op);
  finished_.push_back(token);
  return true;
}

size_t CpuDevice::Poll(std::span<MemToken> finished) {
  const size_t count = std::min(finished.size(), finished_.size());
  std::copy_n(finished_.begin(), count, finished.begin());
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

std::string CpuDevice::Description() const {
  return absl::StrCat("host memory, ", KernelTargetName(), ", ", options_.workers, " workers");
}

}  // namespace mccs
