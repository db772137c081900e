// The memory of ncclMemAlloc where a GPU's memory can be shared by a descriptor: made by CUDA's
// functions for virtual memory, as NCCL makes it, so that a program may ask for its handle
// (cuMemRetainAllocationHandle) and pass that on (cuMemExportToShareableHandle).
//
// An allocation is one handle, mapped once over the whole of a range of addresses of its own. Each
// GPU of the process that reaches the owner's memory may read and write it.
#ifndef MCCS_SHIM_VIRTUAL_ALLOCATIONS_H_
#define MCCS_SHIM_VIRTUAL_ALLOCATIONS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "shim/driver_api.h"

namespace mccs::shim {

// Those that are alive. THREAD: any; the lock is a leaf, and CUDA is not called under it.
class VirtualAllocations {
 public:
  // Whether this GPU's memory can be made so; else it is cuMemAlloc's.
  static bool AreMadeOn(const DriverApi& driver, int ordinal);

  // At least so many bytes, as many as CUDA's granularity asks for.
  // REQUIRES: AreMadeOn, `bytes` > 0. Errors: kUnknown, CUDA's; nothing is left behind then.
  absl::StatusOr<AddressRange> Make(const DriverApi& driver, int ordinal, size_t bytes);

  // Whether one fills exactly this range.
  bool Contains(const AddressRange& range) const;

  // The one that begins there is whoever's who takes it, once: it is to be given back.
  std::optional<AddressRange> Take(uint64_t address);
  // Nobody waits for work on the memory, as NCCL does not. Errors: kUnknown, CUDA's.
  static absl::Status GiveBack(const DriverApi& driver, const AddressRange& range);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> bytes_;  // by address; guarded by mutex_
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_VIRTUAL_ALLOCATIONS_H_
