// A copy from host memory into memory on a GPU, by the process that owns the latter: for puts whose
// source has no kernel that can copy.
//
// OWNER: KernelCopies. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
#define MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/device/gpu/gpu_address_space.h"
#include "service/device/region.h"

namespace mccs {

class ProcessCopy {
 public:
  // `to`: of the process, on its GPU; as long as `from`. LIFETIME: process and memory, until
  // Advance has returned true or an error.
  ProcessCopy(GpuAddressSpace& process, const RegionSpan& from, const RegionSpan& to)
      : process_(&process), from_(from), to_(to) {}

  // Starts the copy as soon as the process has mapped the memory. True: it is complete, or the
  // process has ended. An error is permanent.
  absl::StatusOr<bool> Advance();

 private:
  GpuAddressSpace* process_;
  RegionSpan from_, to_;
  uint64_t number_ = 0;  // once started
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
