// A tenant's process whose kernels run plans, as the daemon sees it.
//
// OWNER: the frontend. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_PROCESS_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_PROCESS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/device/region.h"

namespace mccs {

class KernelProcess {
 public:
  virtual ~KernelProcess() = default;

  // The address of the region for this process's kernels; 0: not known yet, ask again in a later
  // turn. The first call makes the process map it. An error is permanent.
  // LIFETIME: the address, as long as the region.
  virtual absl::StatusOr<uint64_t> AddressOf(const Region& region) = 0;

  // False: the process has ended, and with it its kernels.
  virtual bool alive() const = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_PROCESS_H_
