// A copy from memory of the host into memory on a GPU, by the process that owns the latter. For
// what arrives from another host while no kernel of the process takes commands.
//
// OWNER and THREAD: its user's. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
#define MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "service/device/gpu/kernel_process.h"
#include "service/device/region.h"

namespace mccs {

class ProcessCopy {
 public:
  // `to`: of the process, on its GPU; as long as `from`. LIFETIME: the process, while Advance is
  // called; the memory, until it has returned true or the process has unmapped it.
  ProcessCopy(KernelProcess& process, const RegionSpan& from, const RegionSpan& to)
      : process_(process), from_(from), to_(to) {}

  // Starts the copy as soon as the process has mapped the memory. True: it is complete. An error is
  // permanent.
  absl::StatusOr<bool> Advance();

 private:
  KernelProcess& process_;
  const RegionSpan from_, to_;
  std::optional<uint64_t> number_;  // once started
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_PROCESS_COPY_H_
