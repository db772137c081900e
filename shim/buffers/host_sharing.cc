#include "shim/buffers/host_sharing.h"

#include <mutex>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "shim/buffers/buffer_export.h"
#include "shim/cuda/host_memory.h"

namespace mccs::shim {
namespace {

absl::StatusOr<uint32_t> Register(DaemonClient& client, const SharedHostMemory& shared) {
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kHostMemory;
  message.bytes = shared.memory.bytes();
  message.address = shared.address;
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, client.Send(message, shared.memory.fd()));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, client.Await(request, BufferExports::kRegisterTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto registered, reply.As<wire::RegisterReply>());
  return registered.buffer_id;
}

void Free(const DriverApi& driver, SharedHostMemory& shared) {
  if (driver.MemHostUnregister(shared.memory.data()) == CUDA_SUCCESS) shared.memory = {};
}

}  // namespace

SharedHostMemory::~SharedHostMemory() {
  if (memory.data() == nullptr) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<SharedRegion>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

absl::StatusOr<SharedHostMemory> ShareHostMemory(const DriverApi& driver, DaemonClient& client,
                                                 uint64_t bytes) {
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory, SharedRegion::Create("mccs-host-staging", bytes));
  MCCS_ASSIGN_OR_RETURN(const CUdeviceptr address,
                        RegisterHostMemory(driver, memory, "staging memory of the host"));
  SharedHostMemory shared;
  shared.memory = std::move(memory);
  shared.address = address;
  const absl::StatusOr<uint32_t> registered = Register(client, shared);
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
