#include "shim/buffers/virtual_allocations.h"

#include <limits>

#include "base/status_macros.h"
#include "shim/cuda/virtual_mapping.h"

namespace mccs::shim {
namespace {

constexpr int kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr int kFabric = CU_MEM_HANDLE_TYPE_FABRIC;

bool Has(const DriverApi& driver, CUdevice_attribute attribute, int ordinal) {
  return AttributeOf(driver, attribute, ordinal) != 0;
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
  MCCS_RETURN_IF_ERROR(
      CheckCuda(driver,
                driver.MemGetAllocationGranularity(&granularity, &properties,
                                                   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                "cuMemGetAllocationGranularity"));
  if (bytes > std::numeric_limits<size_t>::max() - granularity) {
    return CudaError(driver, CUDA_ERROR_OUT_OF_MEMORY, "the size exceeds the address space");
  }
  const size_t whole = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle = 0;
  MCCS_RETURN_IF_ERROR(
      CheckCuda(driver, Create(driver, whole, &properties, &handle), "cuMemCreate"));
  const absl::StatusOr<AddressRange> mapped = MapAllocation(driver, handle, whole, ordinal);
  driver.MemRelease(handle);  // the mapping stays
  MCCS_RETURN_IF_ERROR(mapped.status());
  std::lock_guard lock(mutex_);
  bytes_[mapped->base] = mapped->bytes;
  return *mapped;
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

}  // namespace mccs::shim
