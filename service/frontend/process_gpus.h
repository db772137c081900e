// The GPUs on which kernels of one process run plans.
//
// OWNER: the Session. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_PROCESS_GPUS_H_
#define MCCS_SERVICE_FRONTEND_PROCESS_GPUS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/shim_control.h"
#include "service/frontend/gpu_mappings.h"

namespace mccs {

class ProcessGpus {
 public:
  ProcessGpus(SessionId session, pid_t process, GpuMappings::Send send)
      : session_(session), process_(process), send_(std::move(send)) {}

  // The GPU with this uuid, which the process calls `device`; known from the first call on.
  // kResourceExhausted: it is the process's 129th. LIFETIME: that of this object.
  static constexpr size_t kMaxGpus = 128;
  absl::StatusOr<GpuMappings*> On(const std::string& gpu, int32_t device);

  // kInvalidArgument: the daemon did not ask for it.
  absl::Status OnMapped(const wire::MemoryMapped& message);
  absl::Status OnUnmapped(const wire::MemoryUnmapped& message);
  absl::Status OnCopied(const wire::MemoryCopied& message);

  // Destroys `token` when the process has unmapped the region for all its GPUs, or has ended.
  void Withdraw(const Region& region, const std::shared_ptr<void>& token);
  // The process has ended.
  void End();

 private:
  // Whose numbers include this one; null: none.
  GpuMappings* Find(uint64_t number) const;

  const SessionId session_;
  const pid_t process_;
  const GpuMappings::Send send_;
  std::vector<std::unique_ptr<GpuMappings>> gpus_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_PROCESS_GPUS_H_
