// A copy from host memory into memory on a GPU, by the process that owns the latter: for puts whose
// source has no kernel that can copy.
//
// OWNER: KernelCopies. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
#define MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/device/gpu/gpu_address_space.h"
#include "service/device/region.h"

namespace mccs {

class ProcessCopy {
 public:
  // REQUIRES: a copy by a process. LIFETIME: what it names, until Advance has returned true or an
  // error.
  explicit ProcessCopy(const RegionCopy& copy)
      : process_(copy.process), from_(copy.from), to_(copy.to), abandoned_(copy.abandoned) {}

  // Starts the copy as soon as the process has mapped the memory. True: it is complete, or
  // abandoned, or the process has ended. An error is permanent. A process that has an abandoned
  // copy may still make it: it reads `from` until it has unmapped it, and writes into its own
  // memory.
  absl::StatusOr<bool> Advance();
  // The process has it. Until then Advance starts it in its turn.
  bool started() const { return number_ != 0; }
  // Advance would end it without a result.
  bool abandoned() const { return abandoned_ != nullptr && *abandoned_; }

 private:
  GpuAddressSpace* process_;
  RegionSpan from_, to_;
  const bool* abandoned_;
  uint64_t number_ = 0;  // once started
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
