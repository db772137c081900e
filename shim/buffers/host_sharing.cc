#include "shim/buffers/host_sharing.h"

#include <utility>

#include "base/status_macros.h"
#include "shim/buffers/buffer_export.h"
#include "shim/cuda/host_memory.h"

namespace mccs::shim {
namespace {

void Free(const DriverApi& driver, SharedHostMemory& shared) {
  if (driver.MemHostUnregister(shared.memory.data()) == CUDA_SUCCESS) shared.memory = {};
}

}  // namespace

SharedHostMemory::~SharedHostMemory() {
  if (memory.data() != nullptr) KeepMapped(std::move(memory));
}

absl::StatusOr<SharedHostMemory> ShareHostMemory(const DriverApi& driver, DaemonClient& client,
                                                 uint64_t bytes) {
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory, SharedRegion::Create("mccs-host-staging", bytes));
  MCCS_ASSIGN_OR_RETURN(const CUdeviceptr address,
                        RegisterHostMemory(driver, memory, "staging host memory"));
  SharedHostMemory shared;
  shared.memory = std::move(memory);
  shared.address = address;
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kHostMemory;
  message.bytes = shared.memory.bytes();
  message.address = shared.address;
  const absl::StatusOr<uint32_t> registered =
      BufferExports::Register(client, message, {.first = shared.memory.fd()});
  if (!registered.ok()) {
    Free(driver, shared);
    return registered.status();
  }
  shared.buffer = *registered;
  (void)shared.memory.TakeFd();  // the daemon has its own
  return shared;
}

void EndSharing(const DriverApi& driver, DaemonClient& client, SharedHostMemory shared) {
  wire::ReleaseBuffer message{};
  message.buffer_id = shared.buffer;
  // A dead daemon accesses nothing.
  if (const auto request = client.Send(message); request.ok()) {
    const bool ended = client.WaitFor(*request, BufferExports::kReleaseTimeout);
    client.IgnoreReply(*request);
    if (!ended) return;
  }
  Free(driver, shared);
}

}  // namespace mccs::shim
