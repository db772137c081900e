#include "shim/memory.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/diagnostics.h"
#include "shim/driver_api.h"
#include "shim/error_text.h"
#include "shim/process.h"

namespace mccs::shim {
namespace {

absl::StatusOr<CUdeviceptr> Allocate(size_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("ncclMemAlloc: 0 bytes were asked for");
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_ASSIGN_OR_RETURN(const DeviceBinding device, CurrentDevice(*driver));
  const ScopedContext context(*driver, device.context);
  CUdeviceptr address = 0;
  if (CUresult error = driver->MemAlloc(&address, bytes); error != CUDA_SUCCESS) {
    return CudaError(*driver, error,
                     absl::StrCat("ncclMemAlloc: cannot allocate ", bytes, " bytes on CUDA device ",
                                  device.ordinal));
  }
  return address;
}

absl::Status Free(void* memory) {
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_ASSIGN_OR_RETURN(const DeviceBinding device, CurrentDevice(*driver));
  const ScopedContext context(*driver, device.context);
  Process::LetGo({reinterpret_cast<uintptr_t>(memory), 1});
  if (CUresult error = driver->MemFree(reinterpret_cast<CUdeviceptr>(memory));
      error != CUDA_SUCCESS) {
    return CudaError(*driver, error,
                     absl::StrCat("ncclMemFree: cannot free address ",
                                  absl::Hex(reinterpret_cast<uintptr_t>(memory))));
  }
  return absl::OkStatus();
}

}  // namespace

ncclResult_t AllocateMemory(void** memory, size_t bytes) {
  if (memory == nullptr) {
    return Report(absl::InvalidArgumentError("ncclMemAlloc: the place for the answer is NULL"));
  }
  const absl::StatusOr<CUdeviceptr> address = Allocate(bytes);
  if (!address.ok()) return Report(address.status());
  *memory = reinterpret_cast<void*>(*address);
  if (Shows(Verbosity::kInfo, Subsystem::kAlloc)) {
    Say(Verbosity::kInfo,
        absl::StrCat("ncclMemAlloc: ", bytes, " bytes at 0x", absl::Hex(*address)),
        Subsystem::kAlloc);
  }
  return ncclSuccess;
}

ncclResult_t FreeMemory(void* memory) {
  if (memory == nullptr) return ncclSuccess;
  const absl::Status status = Free(memory);
  return status.ok() ? ncclSuccess : Report(status);
}

}  // namespace mccs::shim
