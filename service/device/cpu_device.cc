#include "service/device/cpu_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/device/interpreted_plan.h"
#include "service/device/mapped_memory.h"
#include "service/device/mem_op.h"

namespace mccs {

namespace {

// Releases staging memory in pieces too, because lanes end within a turn of the engine.
class Staging final : public Region {
 public:
  Staging(MemoryMapper& mapper, std::unique_ptr<Region> memory)
      : Region(RegionKind::kStaging, memory->address(), memory->bytes()),
        mapper_(mapper),
        memory_(std::move(memory)) {}
  ~Staging() override { mapper_.Unmap({}, std::move(memory_), nullptr); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

 private:
  MemoryMapper& mapper_;
  std::unique_ptr<Region> memory_;
};

}  // namespace

CpuDevice::CpuDevice(const CpuDeviceOptions& options, std::unique_ptr<MemoryImporter> importer,
                     std::unique_ptr<MappingRunner> runner)
    : options_(options), mapper_(std::move(importer), std::move(runner)), meter_(options.clock) {
  if (options_.workers > 0) {
    pool_ = std::make_unique<WorkerPool>(options_.workers, options_.max_in_flight, &meter_);
  }
}

CpuDevice::~CpuDevice() = default;

absl::StatusOr<std::unique_ptr<Region>> CpuDevice::Allocate(size_t bytes) {
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Region> memory, MappedMemory::Anonymous(bytes));
  return std::make_unique<Staging>(mapper_, std::move(memory));
}

void CpuDevice::Discard(std::span<std::byte> bytes) { MappedMemory::Discard(bytes); }

absl::StatusOr<std::unique_ptr<DevicePlan>> CpuDevice::Load(PlanToLoad plan) {
  return InterpretedPlan::Make(*this, std::move(plan));
}

Device::Submitted CpuDevice::Submit(const MemOp& op, MemToken token) {
  if (pool_ == nullptr || BytesMoved(op) < options_.inline_bytes) {
    meter_.Run(op);
    return Submitted::kFinished;
  }
  if (in_flight_ == options_.max_in_flight) return Submitted::kQueueFull;
  ++in_flight_;
  pool_->Start(op, token);
  return Submitted::kStarted;
}

// Operations on host memory cannot fail.
Device::Polled CpuDevice::Poll(std::span<Finished> finished) {
  if (in_flight_ == 0 || finished.empty()) return {};
  bool worked = false;
  size_t count = 0;
  MemToken token;
  while (count < finished.size() && pool_->Collect({&token, 1}) > 0) {
    finished[count++] = {.token = token, .error = nullptr};
  }
  if (count == 0) {
    const WorkerPool::HelpResult helped = pool_->Help();
    worked = helped.worked;
    if (helped.finished) finished[count++] = {.token = *helped.finished, .error = nullptr};
  }
  in_flight_ -= count;
  return {.finished = count, .worked = worked};
}

std::string CpuDevice::Description() const {
  return absl::StrCat("host memory, ", KernelTargetName(), ", ", options_.workers, " workers");
}

}  // namespace mccs
