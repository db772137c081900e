// One session with the daemon and the objects that belong to it. When the daemon dies, its session
// ends for good; later calls open another.
#ifndef MCCS_SHIM_SUBMIT_SESSION_H_
#define MCCS_SHIM_SUBMIT_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "shim/buffers/buffer_export.h"
#include "shim/buffers/kernel_memory.h"
#include "shim/buffers/probe_memory.h"
#include "shim/buffers/staging_pool.h"
#include "shim/buffers/virtual_allocations.h"
#include "shim/cuda/block_words.h"
#include "shim/cuda/command_kernel.h"
#include "shim/cuda/driver_api.h"
#include "shim/cuda/stream_wait.h"
#include "shim/daemon/daemon_client.h"
#include "shim/daemon/fence.h"

namespace mccs::shim {

// LIFETIME: owned by the process and by each communicator that was created in it.
struct Session {
  Session(const DriverApi& cuda, const StreamWait& waits, const VirtualAllocations& allocations,
          RetiredFencePages& pages, std::unique_ptr<DaemonClient> connection,
          std::chrono::milliseconds export_lease)
      : driver(cuda),
        stream_wait(waits),
        operation_wait(StreamWait::ByMemoryOperation(cuda)),
        retired_pages(pages),
        client(std::move(connection)),
        buffers(cuda, allocations, *client, export_lease),
        staging(cuda, *client, buffers),
        kernel_memory(cuda, *client),
        block_words(std::make_shared<BlockWordsPool>(cuda)),
        probe_memory(cuda, *client) {}

  // Before a communicator whose calls need kernels; loads the kernel onto the context's GPU.
  // REQUIRES: the context is current, in a relaxed capture.
  absl::Status PrepareKernels() {
    std::lock_guard lock(kernel_mutex_);
    if (!command_kernel.has_value()) {
      MCCS_ASSIGN_OR_RETURN(command_kernel, CommandKernel::Make(driver, client->kernel_image()));
    }
    return command_kernel->Prepare();
  }

  // How streams of a rank with this role wait for calls that their kernels do not run.
  const StreamWait& WaitFor(wire::KernelRole role) const {
    return role == wire::KernelRole::kSharesWithOther ? operation_wait : stream_wait;
  }

  const DriverApi& driver;
  const StreamWait stream_wait;
  const StreamWait operation_wait;  // for streams that may run no kernel
  RetiredFencePages& retired_pages;
  std::unique_ptr<DaemonClient> client;
  BufferExports buffers;
  StagingPool staging;
  KernelMemory kernel_memory;
  // Shared with the pages of communicators, which may outlive the session.
  const std::shared_ptr<BlockWordsPool> block_words;
  ProbeMemory probe_memory;
  std::optional<CommandKernel> command_kernel;  // set once, before its first user
  std::atomic<uint64_t> next_capture{
      1};  // number of the next capture, unique among all communicators

 private:
  std::mutex kernel_mutex_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_SESSION_H_
