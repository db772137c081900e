#include "shim/cuda/host_memory.h"

#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs::shim {

absl::StatusOr<CUdeviceptr> RegisterHostMemory(const DriverApi& driver, const SharedRegion& memory,
                                               const char* what) {
  if (CUresult error =
          driver.MemHostRegister(memory.data(), memory.bytes(),
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
      error != CUDA_SUCCESS) {
    return CudaError(driver, error, absl::StrCat("cannot register ", what, " with CUDA"));
  }
  CUdeviceptr address = 0;
  const CUresult error = driver.MemHostGetDevicePointer(&address, memory.data(), 0);
  if (error == CUDA_SUCCESS) return address;
  driver.MemHostUnregister(memory.data());
  return CudaError(driver, error, absl::StrCat("cannot get the device address of ", what));
}

void KeepMapped(SharedRegion memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<SharedRegion>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

RegisteredHostMemory::~RegisteredHostMemory() {
  if (kept_) {
    KeepMapped(std::move(memory_));
    return;
  }
  const ScopedContext context(driver_, context_);
  const RelaxedCapture relaxed(driver_);  // captures of other threads go on
  driver_.MemHostUnregister(memory_.data());
}

}  // namespace mccs::shim
