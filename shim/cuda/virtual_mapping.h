// Allocations of CUDA's virtual memory at addresses of this process.
//
// THREAD: any. Errors: kUnknown (a CUDA error).
#ifndef MCCS_SHIM_CUDA_VIRTUAL_MAPPING_H_
#define MCCS_SHIM_CUDA_VIRTUAL_MAPPING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// Maps the whole allocation at new addresses, for the GPU of this ordinal and its peers.
// REQUIRES: has_virtual_memory(); `bytes` is the allocation's size.
absl::StatusOr<AddressRange> MapAllocation(const DriverApi& driver,
                                           CUmemGenericAllocationHandle handle, uint64_t bytes,
                                           int ordinal);

// Lets kernels on the GPU of this ordinal use the mappings that fill the range.
absl::Status AllowAccess(const DriverApi& driver, const AddressRange& range, int ordinal);

// Maps the whole allocation of another process at new addresses, for the GPU of this ordinal alone.
// Does not keep the descriptor.
absl::StatusOr<AddressRange> MapDescriptor(const DriverApi& driver, int fd, uint64_t bytes,
                                           int ordinal);

// REQUIRES: no work uses it any more.
absl::Status UnmapAllocation(const DriverApi& driver, const AddressRange& range);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_VIRTUAL_MAPPING_H_
