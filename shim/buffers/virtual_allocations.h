// The memory of ncclMemAlloc on GPUs whose memory can be shared by a descriptor. It uses CUDA's
// virtual memory functions, as NCCL does, so that a program may get its handle
// (cuMemRetainAllocationHandle) and export that (cuMemExportToShareableHandle).
//
// An allocation is one handle, mapped once over an address range of its own. Each GPU of the
// process that can access the owner's memory may read and write it.
#ifndef MCCS_SHIM_BUFFERS_VIRTUAL_ALLOCATIONS_H_
#define MCCS_SHIM_BUFFERS_VIRTUAL_ALLOCATIONS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// The live allocations. THREAD: any; the lock is a leaf, and CUDA is not called under it.
class VirtualAllocations {
 public:
  // Whether this GPU supports such memory; else ncclMemAlloc uses cuMemAlloc.
  static bool IsSupportedOn(const DriverApi& driver, int ordinal);

  // Allocates at least `bytes`, rounded up to CUDA's granularity.
  // REQUIRES: IsSupportedOn, `bytes` > 0. Errors: kUnknown, CUDA's; nothing is allocated then.
  absl::StatusOr<AddressRange> Make(const DriverApi& driver, int ordinal, size_t bytes);

  // Whether an allocation has exactly this range.
  bool Contains(const AddressRange& range) const;

  // Removes the allocation that begins there, if any; the caller passes it to UnmapAllocation,
  // without waiting for work on the memory, as NCCL does.
  std::optional<AddressRange> Take(uint64_t address);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> bytes_;  // by address; guarded by mutex_
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_VIRTUAL_ALLOCATIONS_H_
