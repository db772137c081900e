#include "shim/buffers/probe_memory.h"

#include <cstring>

#include "absl/status/statusor.h"
#include "shim/buffers/buffer_export.h"

namespace mccs::shim {
namespace {

constexpr size_t kBytes = 64 << 10;

}  // namespace

uint32_t ProbeMemory::BufferOn(const DeviceBinding& device) {
  std::lock_guard lock(mutex_);
  const auto [known, added] = buffers_.try_emplace(device.ordinal, 0);
  if (added) known->second = MakeOn(device);
  return known->second;
}

uint32_t ProbeMemory::MakeOn(const DeviceBinding& device) {
  const ScopedContext context(driver_, device.context);
  const RelaxedCapture relaxed(driver_);
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kCudaIpc;
  message.device = device.ordinal;
  message.bytes = kBytes;
  CUuuid uuid;
  CUdeviceptr address = 0;
  if (driver_.DeviceGetUuid(&uuid, device.ordinal) != CUDA_SUCCESS ||
      driver_.MemAlloc(&address, kBytes) != CUDA_SUCCESS) {
    return 0;
  }
  std::memcpy(message.device_uuid, &uuid, sizeof(message.device_uuid));
  message.address = address;
  CUipcMemHandle handle;
  static_assert(sizeof(handle) == sizeof(message.handle));
  if (driver_.IpcGetMemHandle(&handle, address) == CUDA_SUCCESS) {
    std::memcpy(message.handle, &handle, sizeof(handle));
    const absl::StatusOr<uint32_t> buffer = BufferExports::Register(client_, message, {});
    if (buffer.ok()) return *buffer;
  }
  // The memory stays: cuMemFree waits for all kernels of the GPU, which may wait for this thread.
  return 0;
}

}  // namespace mccs::shim
