// A tenant's process whose kernels run plans on one of its GPUs, as the daemon sees it.
//
// OWNER: the frontend. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_GPU_ADDRESS_SPACE_H_
#define MCCS_SERVICE_DEVICE_GPU_GPU_ADDRESS_SPACE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "service/device/region.h"

namespace mccs {

// Where kernels run.
struct KernelPlace {
  uint64_t session = 0;  // of the process: ascending in the order in which processes have connected
  pid_t process = 0;
  int32_t device = 0;  // CUDA ordinal in the process
  std::string gpu;     // uuid of the GPU, or of the instance of one (MIG)
};

class GpuAddressSpace {
 public:
  virtual ~GpuAddressSpace() = default;

  virtual const KernelPlace& place() const = 0;

  // The address of the region for this process's kernels on this GPU; 0: not known yet, ask again
  // in a later turn. The first call makes the process map it. An error is permanent.
  // LIFETIME: the address, as long as the region.
  virtual absl::StatusOr<uint64_t> AddressOf(const Region& region) = 0;

  // Makes the process copy host memory, of which it gave the address `from`, into its own
  // memory on this GPU. Returns the copy's number; 0: too many are in progress, try again.
  virtual uint64_t StartCopy(uint64_t to, uint64_t from, uint64_t bytes) = 0;
  // True: the copy is complete. An error is the process's. After either the number is forgotten.
  virtual absl::StatusOr<bool> TakeCopied(uint64_t copy) = 0;
  // Instead of TakeCopied, for a copy that is needed no more. The process learns of it, but may
  // still make it.
  virtual void ForgetCopy(uint64_t copy) = 0;

  // False: the process has ended, and with it its kernels.
  virtual bool alive() const = 0;

  // Memory of this GPU that shows which other processes can map such memory; null: none.
  // LIFETIME: this turn.
  virtual const Region* probe() const = 0;
};

// As AddressOf, for a part of a region.
inline absl::StatusOr<uint64_t> AddressOf(GpuAddressSpace& process, const RegionSpan& span) {
  const absl::StatusOr<uint64_t> base = process.AddressOf(*span.region);
  if (!base.ok() || *base == 0) return base;
  return *base + span.offset;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_GPU_ADDRESS_SPACE_H_
