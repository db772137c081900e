#include "shim/cuda/dma_buf.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace mccs::shim {
namespace {

int AttributeOf(const DriverApi& driver, CUdevice_attribute attribute, int device) {
  int value = 0;
  const bool known = driver.DeviceGetAttribute != nullptr &&
                     driver.DeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS;
  return known ? value : 0;
}

const char* NameOf(const DriverApi& driver, CUresult error) {
  const char* name = nullptr;
  return driver.GetErrorName(error, &name) == CUDA_SUCCESS && name != nullptr ? name : "unknown";
}

}  // namespace

absl::StatusOr<DmaBuf> ExportDmaBuf(const DriverApi& driver, int device,
                                    const AddressRange& memory) {
  if (driver.MemGetHandleForAddressRange == nullptr) {
    return absl::UnimplementedError(
        "the CUDA driver has no cuMemGetHandleForAddressRange; install a driver for CUDA 11.7 or "
        "later");
  }
  if (AttributeOf(driver, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device) == 0) {
    return absl::UnimplementedError(
        absl::StrCat("GPU ", device,
                     " has no dma-bufs (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0); use "
                     "NVIDIA's open kernel modules and Linux 5.12 or later"));
  }
  // A kernel that runs sees the end of a transfer in host memory, and cannot flush the
  // writes of the NIC before it.
  if (const int ordering =
          AttributeOf(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device);
      ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER) {
    return absl::UnimplementedError(
        absl::StrCat("GPU ", device,
                     " does not order writes of NICs for its kernels "
                     "(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING is ",
                     ordering, "); use a GPU that does"));
  }
  // The ends are aligned as CUDA demands.
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  DmaBuf result;
  result.offset = memory.base % page;
  const uint64_t bytes = (result.offset + memory.bytes + page - 1) / page * page;
  int descriptor = -1;
  if (const CUresult error = driver.MemGetHandleForAddressRange(
          &descriptor, memory.base - result.offset, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
      error != CUDA_SUCCESS) {
    return absl::UnimplementedError(absl::StrCat(
        "cuMemGetHandleForAddressRange failed: ", NameOf(driver, error),
        "; allocate with cudaMalloc or ncclMemAlloc, or with gpuDirectRDMACapable in cuMemCreate"));
  }
  result.descriptor.Reset(descriptor);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return result;
}

}  // namespace mccs::shim
