#include "shim/buffers/virtual_allocations.h"

#include <limits>
#include <string_view>
#include <vector>

#include "base/status_macros.h"

namespace mccs::shim {
namespace {

constexpr int kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr int kFabric = CU_MEM_HANDLE_TYPE_FABRIC;

bool Has(const DriverApi& driver, CUdevice_attribute attribute, int ordinal) {
  int value = 0;
  return driver.DeviceGetAttribute(&value, attribute, ordinal) == CUDA_SUCCESS && value != 0;
}

absl::Status Check(const DriverApi& driver, CUresult error, std::string_view function) {
  return error == CUDA_SUCCESS ? absl::OkStatus() : CudaError(driver, error, function);
}

CUmemAllocationProp PropertiesOn(const DriverApi& driver, int ordinal) {
  int shared_as = kDescriptor;
  if (Has(driver, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, ordinal)) shared_as |= kFabric;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(shared_as);
  properties.allocFlags.gpuDirectRDMACapable =
      Has(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ordinal) ? 1 : 0;
  return properties;
}

// A GPU may support fabric handles that this process cannot use: retry without them.
CUresult Create(const DriverApi& driver, size_t bytes, CUmemAllocationProp* properties,
                CUmemGenericAllocationHandle* handle) {
  const CUresult error = driver.MemCreate(handle, bytes, properties, 0);
  const bool unwanted = error == CUDA_ERROR_NOT_PERMITTED || error == CUDA_ERROR_NOT_SUPPORTED;
  if (!unwanted || (properties->requestedHandleTypes & kFabric) == 0) return error;
  properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return driver.MemCreate(handle, bytes, properties, 0);
}

// The owning GPU, and its peers.
std::vector<CUmemAccessDesc> AccessTo(const DriverApi& driver, const CUmemLocation& memory) {
  std::vector<CUmemAccessDesc> all;
  int devices = 0;
  driver.DeviceGetCount(&devices);
  for (int device = 0; device < devices; ++device) {
    int reaches = device == memory.id ? 1 : 0;
    if (reaches == 0) driver.DeviceCanAccessPeer(&reaches, device, memory.id);
    if (reaches == 0) continue;
    all.push_back({.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  return all;
}

absl::Status MapAt(const DriverApi& driver, const AddressRange& range,
                   CUmemGenericAllocationHandle handle, const CUmemLocation& memory) {
  MCCS_RETURN_IF_ERROR(
      Check(driver, driver.MemMap(range.base, range.bytes, 0, handle, 0), "cuMemMap"));
  const std::vector<CUmemAccessDesc> access = AccessTo(driver, memory);
  const CUresult set = driver.MemSetAccess(range.base, range.bytes, access.data(), access.size());
  if (set != CUDA_SUCCESS) driver.MemUnmap(range.base, range.bytes);
  return Check(driver, set, "cuMemSetAccess");
}

}  // namespace

bool VirtualAllocations::IsSupportedOn(const DriverApi& driver, int ordinal) {
  return driver.has_virtual_memory() &&
         Has(driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal) &&
         Has(driver, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, ordinal);
}

absl::StatusOr<AddressRange> VirtualAllocations::Make(const DriverApi& driver, int ordinal,
                                                      size_t bytes) {
  CUmemAllocationProp properties = PropertiesOn(driver, ordinal);
  size_t granularity = 0;
  MCCS_RETURN_IF_ERROR(Check(driver,
                             driver.MemGetAllocationGranularity(
                                 &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                             "cuMemGetAllocationGranularity"));
  if (bytes > std::numeric_limits<size_t>::max() - granularity) {
    return CudaError(driver, CUDA_ERROR_OUT_OF_MEMORY, "the size exceeds the address space");
  }
  AddressRange range{.base = 0, .bytes = (bytes + granularity - 1) / granularity * granularity};
  CUmemGenericAllocationHandle handle = 0;
  MCCS_RETURN_IF_ERROR(
      Check(driver, Create(driver, range.bytes, &properties, &handle), "cuMemCreate"));
  CUdeviceptr address = 0;
  absl::Status made =
      Check(driver, driver.MemAddressReserve(&address, range.bytes, granularity, 0, 0),
            "cuMemAddressReserve");
  if (made.ok()) {
    range.base = address;
    made = MapAt(driver, range, handle, properties.location);
    if (!made.ok()) driver.MemAddressFree(range.base, range.bytes);
  }
  driver.MemRelease(handle);  // the mapping stays
  MCCS_RETURN_IF_ERROR(made);
  std::lock_guard lock(mutex_);
  bytes_[range.base] = range.bytes;
  return range;
}

bool VirtualAllocations::Contains(const AddressRange& range) const {
  std::lock_guard lock(mutex_);
  const auto found = bytes_.find(range.base);
  return found != bytes_.end() && found->second == range.bytes;
}

std::optional<AddressRange> VirtualAllocations::Take(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto found = bytes_.find(address);
  if (found == bytes_.end()) return std::nullopt;
  const AddressRange range{found->first, found->second};
  bytes_.erase(found);
  return range;
}

absl::Status VirtualAllocations::FreeMapping(const DriverApi& driver, const AddressRange& range) {
  MCCS_RETURN_IF_ERROR(Check(driver, driver.MemUnmap(range.base, range.bytes), "cuMemUnmap"));
  return Check(driver, driver.MemAddressFree(range.base, range.bytes), "cuMemAddressFree");
}

}  // namespace mccs::shim
