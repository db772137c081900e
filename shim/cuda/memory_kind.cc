#include "shim/cuda/memory_kind.h"

#include "absl/strings/str_cat.h"

namespace mccs::shim {
namespace {

bool IsVirtual(const DriverApi& driver, CUdeviceptr address) {
  if (driver.MemRetainAllocationHandle == nullptr) return false;
  CUmemGenericAllocationHandle handle;
  void* const place = reinterpret_cast<void*>(address);
  if (driver.MemRetainAllocationHandle(&handle, place) != CUDA_SUCCESS) return false;
  driver.MemRelease(handle);
  return true;
}

}  // namespace

std::optional<MemoryKind> KindOf(const DriverApi& driver, CUdeviceptr address) {
  unsigned type = 0;
  if (driver.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
      CUDA_SUCCESS) {
    return std::nullopt;
  }
  unsigned managed = 0;
  driver.PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (managed != 0) return MemoryKind::kManaged;
  if (type != CU_MEMORYTYPE_DEVICE) return MemoryKind::kHost;
  return IsVirtual(driver, address) ? MemoryKind::kVirtual : MemoryKind::kDevice;
}

std::optional<unsigned long long> BufferIdOf(const DriverApi& driver, CUdeviceptr address) {
  unsigned long long id = 0;
  if (driver.PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return id;
}

absl::StatusOr<UniqueFd> DescriptorOf(const DriverApi& driver, CUdeviceptr address) {
  CUmemGenericAllocationHandle handle;
  if (driver.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)) != CUDA_SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory at 0x", absl::Hex(address), " is not part of the mapped range"));
  }
  int fd = -1;
  const bool shared = driver.MemExportToShareableHandle != nullptr &&
                      driver.MemExportToShareableHandle(
                          &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS;
  driver.MemRelease(handle);
  return UniqueFd(shared ? fd : -1);
}

// cuMemGetAddressRange covers device memory only; the attributes cover registered memory too.
std::optional<AddressRange> ExtentOf(const DriverApi& driver, CUdeviceptr address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (driver.MemGetAddressRange(&base, &bytes, address) == CUDA_SUCCESS)
    return AddressRange{base, bytes};
  if (driver.PointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) ==
          CUDA_SUCCESS &&
      driver.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) ==
          CUDA_SUCCESS) {
    return AddressRange{base, bytes};
  }
  return std::nullopt;
}

}  // namespace mccs::shim
