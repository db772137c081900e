#include "shim/cuda/virtual_mapping.h"

#include <algorithm>

#include "base/status_macros.h"

namespace mccs::shim {
namespace {

// Of addresses: that of the largest pages, if the allocation consists of them.
constexpr uint64_t kMostAlignment = uint64_t{2} << 20;

absl::Status MapAt(const DriverApi& driver, const AddressRange& range,
                   CUmemGenericAllocationHandle handle, int ordinal) {
  MCCS_RETURN_IF_ERROR(
      CheckCuda(driver, driver.MemMap(range.base, range.bytes, 0, handle, 0), "cuMemMap"));
  absl::Status allowed = AllowAccess(driver, range, ordinal);
  if (!allowed.ok()) driver.MemUnmap(range.base, range.bytes);
  return allowed;
}

absl::StatusOr<AddressRange> MapAnywhere(const DriverApi& driver,
                                         CUmemGenericAllocationHandle handle, uint64_t bytes,
                                         int ordinal) {
  const uint64_t alignment = std::min(bytes & (~bytes + 1), kMostAlignment);
  CUdeviceptr address = 0;
  MCCS_RETURN_IF_ERROR(CheckCuda(driver, driver.MemAddressReserve(&address, bytes, alignment, 0, 0),
                                 "cuMemAddressReserve"));
  const AddressRange range{.base = address, .bytes = bytes};
  const absl::Status mapped = MapAt(driver, range, handle, ordinal);
  if (mapped.ok()) return range;
  driver.MemAddressFree(range.base, range.bytes);
  return mapped;
}

}  // namespace

absl::Status AllowAccess(const DriverApi& driver, const AddressRange& range, int ordinal) {
  const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return CheckCuda(driver, driver.MemSetAccess(range.base, range.bytes, &access, 1),
                   "cuMemSetAccess");
}

absl::StatusOr<AddressRange> MapAllocation(const DriverApi& driver,
                                           CUmemGenericAllocationHandle handle, uint64_t bytes,
                                           int ordinal) {
  MCCS_ASSIGN_OR_RETURN(const AddressRange range, MapAnywhere(driver, handle, bytes, ordinal));
  int devices = 0;
  driver.DeviceGetCount(&devices);
  for (int device = 0; device < devices; ++device) {
    int reaches = 0;
    if (device != ordinal) driver.DeviceCanAccessPeer(&reaches, device, ordinal);
    // A peer that does not reach it does not use it either.
    if (reaches != 0) (void)AllowAccess(driver, range, device);
  }
  return range;
}

absl::StatusOr<AddressRange> MapDescriptor(const DriverApi& driver, int fd, uint64_t bytes,
                                           int ordinal) {
  if (!driver.has_virtual_memory() || driver.MemImportFromShareableHandle == nullptr)
    return absl::UnknownError("CUDA's driver has no virtual memory; install a newer one");
  CUmemGenericAllocationHandle handle = 0;
  MCCS_RETURN_IF_ERROR(CheckCuda(driver,
                                 driver.MemImportFromShareableHandle(
                                     &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                                 "cuMemImportFromShareableHandle"));
  absl::StatusOr<AddressRange> range = MapAnywhere(driver, handle, bytes, ordinal);
  driver.MemRelease(handle);  // the mapping stays
  return range;
}

absl::Status UnmapAllocation(const DriverApi& driver, const AddressRange& range) {
  MCCS_RETURN_IF_ERROR(CheckCuda(driver, driver.MemUnmap(range.base, range.bytes), "cuMemUnmap"));
  return CheckCuda(driver, driver.MemAddressFree(range.base, range.bytes), "cuMemAddressFree");
}

}  // namespace mccs::shim
