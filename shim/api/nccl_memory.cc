// ncclMemAlloc and ncclMemFree: device memory that the host's daemon can map, and that the program
// can share by its handle if the GPU has virtual memory (virtual_allocations.h); otherwise ordinary
// memory of cuMemAlloc.
#include <nccl.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/api/exported.h"
#include "shim/config/diagnostics.h"
#include "shim/cuda/driver_api.h"
#include "shim/cuda/virtual_mapping.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

// The same memory as NCCL's: with a shareable handle, if the GPU supports it.
absl::StatusOr<uint64_t> MakeMemory(const DriverApi& driver, const DeviceBinding& device,
                                    size_t bytes) {
  if (VirtualAllocations::IsSupportedOn(driver, device.ordinal)) {
    MCCS_ASSIGN_OR_RETURN(const AddressRange range,
                          Process::Get().allocations().Make(driver, device.ordinal, bytes));
    return range.base;
  }
  CUdeviceptr address = 0;
  const CUresult error = driver.MemAlloc(&address, bytes);
  if (error != CUDA_SUCCESS) return CudaError(driver, error, "cuMemAlloc");
  return address;
}

absl::StatusOr<uint64_t> AllocateMemory(size_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("ncclMemAlloc: size is 0");
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_ASSIGN_OR_RETURN(const DeviceBinding device, CurrentDevice(*driver));
  const ScopedContext context(*driver, device.context);
  const absl::StatusOr<uint64_t> made = MakeMemory(*driver, device, bytes);
  if (made.ok()) return made;
  return absl::Status(made.status().code(), absl::StrCat("ncclMemAlloc: cannot allocate ", bytes,
                                                         " bytes on CUDA device ", device.ordinal,
                                                         ": ", made.status().message()));
}

// Releases the memory at the daemon first. The driver frees, or rejects, memory that this library
// did not map.
absl::Status FreeMemory(uint64_t address) {
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  if (const auto range = Process::Get().allocations().Take(address)) {
    Process::ReleaseRange(*range);
    return UnmapAllocation(*driver, *range);
  }
  MCCS_ASSIGN_OR_RETURN(const DeviceBinding device, CurrentDevice(*driver));
  const ScopedContext context(*driver, device.context);
  Process::ReleaseRange({address, 1});
  const CUresult error = driver->MemFree(address);
  return error == CUDA_SUCCESS ? absl::OkStatus() : CudaError(*driver, error, "cuMemFree");
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

// On the current device. ncclInvalidArgument: output pointer is NULL, or no bytes.
MCCS_EXPORT(ncclResult_t, ncclMemAlloc)(void** memory, size_t bytes) {
  if (memory == nullptr) {
    return shim::Report(absl::InvalidArgumentError("ncclMemAlloc: ptr is NULL"));
  }
  const absl::StatusOr<uint64_t> address = shim::AllocateMemory(bytes);
  if (!address.ok()) return shim::Report(address.status());
  *memory = reinterpret_cast<void*>(*address);
  if (shim::IsLogged(shim::Verbosity::kInfo, shim::Subsystem::kAlloc)) {
    shim::LogLine(shim::Verbosity::kInfo,
                  absl::StrCat("ncclMemAlloc: ", bytes, " bytes at 0x", absl::Hex(*address)),
                  shim::Subsystem::kAlloc);
  }
  return ncclSuccess;
}

// Also frees memory of cuMemAlloc. Waits for the daemon's release, at most as long as
// BufferExports::ReleaseRange.
MCCS_EXPORT(ncclResult_t, ncclMemFree)(void* memory) {
  if (memory == nullptr) return ncclSuccess;
  const auto address = reinterpret_cast<uint64_t>(memory);
  const absl::Status freed = shim::FreeMemory(address);
  if (freed.ok()) return ncclSuccess;
  return shim::Report(absl::Status(
      freed.code(),
      absl::StrCat("ncclMemFree: cannot free 0x", absl::Hex(address), ": ", freed.message())));
}
