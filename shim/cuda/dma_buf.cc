#include "shim/cuda/dma_buf.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/cuda/cuda_error.h"

namespace mccs::shim {
namespace {

// The first GPUs whose running kernels see what a NIC has written, once they see the word that the
// daemon writes after it: NCCL flushes the writes of NICs to all GPUs before these.
constexpr int kOrderedMajor = 9;

// Whether kernels may use what a NIC writes there. A kernel that runs sees the end of a transfer in
// host memory, and cannot flush the writes of the NIC before it.
absl::Status CheckOrder(const DriverApi& driver, int device, int ordering) {
  if (ordering < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER) {
    return absl::UnimplementedError(
        absl::StrCat("CUDA device ", device,
                     " does not order writes of NICs for its kernels "
                     "(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING is ",
                     ordering, "); use a GPU that does"));
  }
  const int major = AttributeOf(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (major >= kOrderedMajor) return absl::OkStatus();
  const int minor = AttributeOf(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return absl::UnimplementedError(
      absl::StrCat("CUDA device ", device, " has compute capability ", major, ".", minor,
                   ", and writes of NICs to GPUs before 9.0 need a flush, which a running kernel "
                   "cannot do; use a later GPU"));
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
        absl::StrCat("CUDA device ", device,
                     " has no dma-bufs (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0); use "
                     "NVIDIA's open kernel modules and Linux 5.12 or later"));
  }
  const int ordering =
      AttributeOf(driver, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device);
  MCCS_RETURN_IF_ERROR(CheckOrder(driver, device, ordering));
  // The ends are aligned as CUDA demands.
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  DmaBuf result;
  result.offset = memory.base % page;
  result.ordered_for_all = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
  const uint64_t bytes = (result.offset + memory.bytes + page - 1) / page * page;
  int descriptor = -1;
  if (const CUresult error = driver.MemGetHandleForAddressRange(
          &descriptor, memory.base - result.offset, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
      error != CUDA_SUCCESS) {
    const absl::Status failed = CudaError(driver, error, "cuMemGetHandleForAddressRange");
    if (GpuFailureOf(failed).has_value()) return failed;
    return absl::UnimplementedError(absl::StrCat(
        "cannot export a dma-buf: ", failed.message(),
        "; allocate with cudaMalloc or ncclMemAlloc, or with gpuDirectRDMACapable in cuMemCreate"));
  }
  result.descriptor.Reset(descriptor);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return result;
}

}  // namespace mccs::shim
