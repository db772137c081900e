// Dma-bufs of memory on GPUs, by which NICs reach it without a processor.
#ifndef MCCS_SHIM_CUDA_DMA_BUF_H_
#define MCCS_SHIM_CUDA_DMA_BUF_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "base/unique_fd.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

struct DmaBuf {
  UniqueFd descriptor;
  uint64_t offset = 0;  // of the memory's first byte, less than a page
  // Kernels on all GPUs of the process see the writes of NICs; else only those on the memory's own.
  bool ordered_for_all = false;
};

// The dma-buf of one allocation or mapping on the GPU with this CUDA ordinal. kUnimplemented: there
// is none, or kernels must not use what a NIC writes there; the error message has cause and remedy.
// kUnknown, as CudaError: the GPU has failed.
// REQUIRES: a context is current.
absl::StatusOr<DmaBuf> ExportDmaBuf(const DriverApi& driver, int device,
                                    const AddressRange& memory);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_DMA_BUF_H_
