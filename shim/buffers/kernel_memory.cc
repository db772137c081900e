#include "shim/buffers/kernel_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/cuda/cuda_error.h"
#include "shim/cuda/host_memory.h"
#include "shim/cuda/virtual_mapping.h"

namespace mccs::shim {
namespace {

// CUDA reports one error for several causes, and does not say which.
absl::Status IpcError(const DriverApi& driver, CUresult error) {
  constexpr char kWhat[] = "cannot open GPU memory of another rank: cuIpcOpenMemHandle";
  if (!ExplainCudaError(error).empty()) return CudaError(driver, error, kWhat);
  return absl::UnknownError(absl::StrCat(
      CudaError(driver, error, kWhat).message(),
      ": CUDA IPC does not work between the two processes. Containers of one host must share the "
      "PID namespace (docker run --pid=host, hostPID: true); MIG instances and GPUs without peer "
      "access share no memory"));
}

void SetError(const absl::Status& why, wire::ReplyStatus* status) {
  status->error = wire::ErrorClass::kSystem;
  const size_t bytes = std::min(why.message().size(), sizeof(status->text) - 1);
  std::memcpy(status->text, why.message().data(), bytes);
}

}  // namespace

KernelMemory::KernelMemory(const DriverApi& driver, DaemonClient& client)
    : driver_(driver),
      client_(client),
      closer_(std::make_shared<MemoryCloser>(driver)),
      copier_(driver) {
  client_.SetMemoryHandler([this](Reply message) { OnMessage(std::move(message)); });
}

// Mappings stay: streams may hold launches that use them.
KernelMemory::~KernelMemory() {
  client_.SetMemoryHandler(nullptr);
  for (auto& [number, mapping] : mappings_) {
    if (mapping.host != nullptr) KeepMapped(std::move(*mapping.host));
  }
}

void KernelMemory::SetContext(const DeviceBinding& device) {
  std::lock_guard lock(mutex_);
  contexts_.try_emplace(device.ordinal, device.context);
}

void KernelMemory::OnMessage(Reply message) {
  wire::MessageHeader header;
  std::memcpy(&header, message.bytes, sizeof(header));
  const auto take = [&](auto request, const auto& handle) {
    if (message.size != sizeof(request)) return;
    std::memcpy(&request, message.bytes, sizeof(request));
    std::lock_guard lock(mutex_);
    handle(request);
  };
  switch (header.kind) {
    case wire::MessageKind::kMapMemory:
      return take(wire::MapMemory{}, [&](const auto& r) { OnMapMemory(r, message); });
    case wire::MessageKind::kUnmapMemory:
      return take(wire::UnmapMemory{}, [&](const auto& r) { OnUnmapMemory(r); });
    case wire::MessageKind::kCopyMemory:
      return take(wire::CopyMemory{}, [&](const auto& r) { OnCopyMemory(r); });
    default:
      return;
  }
}

void KernelMemory::OnMapMemory(const wire::MapMemory& request, Reply& message) {
  wire::MemoryMapped answer{};
  answer.memory = request.memory;
  MemoryCloser::Opened mapping;
  CUdeviceptr address = 0;
  const absl::Status mapped = Map(request, message, &mapping, &address);
  if (mapped.ok()) {
    answer.address = address;
    mappings_[request.memory] = std::move(mapping);
  } else {
    SetError(mapped, &answer.status);
  }
  client_.SendOneWay(answer);
}

void KernelMemory::OnUnmapMemory(const wire::UnmapMemory& request) {
  if (const auto mapping = mappings_.find(request.memory); mapping != mappings_.end()) {
    // Copies of which the daemon has stopped to wait may still read it.
    copier_.AfterCopies(MemoryCloser::kLimit,
                        [closer = closer_, memory = mapping->second] { closer->Close(memory); });
    mappings_.erase(mapping);
  }
  wire::MemoryUnmapped answer{};
  answer.memory = request.memory;
  client_.SendOneWay(answer);
}

void KernelMemory::OnCopyMemory(const wire::CopyMemory& request) {
  const auto answer = [this, number = request.copy](const absl::Status& status) {
    wire::MemoryCopied message{};
    message.copy = number;
    if (!status.ok()) SetError(status, &message.status);
    client_.SendOneWay(message);
  };
  const auto context = contexts_.find(request.device);
  if (context == contexts_.end()) {
    return answer(absl::InternalError(
        absl::StrCat("no communicator uses CUDA device ", request.device, " of this process")));
  }
  copier_.Add({.context = context->second,
               .to = request.to,
               .from = request.from,
               .bytes = request.bytes,
               .done = answer});
}

absl::Status KernelMemory::Map(const wire::MapMemory& request, Reply& message,
                               MemoryCloser::Opened* opened, CUdeviceptr* address) {
  const auto known = contexts_.find(request.device);
  if (known == contexts_.end()) {
    return absl::InternalError(
        absl::StrCat("no communicator uses CUDA device ", request.device, " of this process"));
  }
  const ScopedContext context(driver_, known->second);
  const RelaxedCapture relaxed(driver_);
  if (request.own_address != 0) {
    *address = request.own_address;
    return AllowOwn(request);
  }
  opened->context = known->second;
  if (request.kind == wire::ExportKind::kCudaIpc) {
    MCCS_RETURN_IF_ERROR(OpenIpc(request, opened));
    *address = opened->ipc;
    return absl::OkStatus();
  }
  if (!message.fds[0].valid()) return absl::InternalError("the message has no descriptor");
  if (request.kind == wire::ExportKind::kFileDescriptor) {
    MCCS_ASSIGN_OR_RETURN(opened->mapped, MapDescriptor(driver_, message.fds[0].get(),
                                                        request.bytes, request.device));
    *address = opened->mapped.base;
    return absl::OkStatus();
  }
  if (request.kind != wire::ExportKind::kHostMemory)
    return absl::InternalError("unknown kind of memory");
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory, SharedRegion::Map(std::move(message.fds[0])));
  MCCS_ASSIGN_OR_RETURN(*address, RegisterHostMemory(driver_, memory, "shared memory"));
  opened->host = std::make_shared<SharedRegion>(std::move(memory));
  return absl::OkStatus();
}

absl::Status KernelMemory::AllowOwn(const wire::MapMemory& request) {
  int owner = request.device;
  MCCS_RETURN_IF_ERROR(CheckCuda(
      driver_,
      driver_.PointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, request.own_address),
      "cuPointerGetAttribute"));
  if (owner == request.device) return absl::OkStatus();
  int reaches = 0;
  if (driver_.DeviceCanAccessPeer != nullptr)
    driver_.DeviceCanAccessPeer(&reaches, request.device, owner);
  if (reaches == 0 || driver_.CtxEnablePeerAccess == nullptr) {
    return absl::UnknownError(absl::StrCat("it has no access to memory of CUDA device ", owner,
                                           " (cuDeviceCanAccessPeer)"));
  }
  if (request.kind == wire::ExportKind::kFileDescriptor)
    return AllowAccess(driver_, {request.own_address, request.bytes}, request.device);
  const auto known = contexts_.find(owner);
  DeviceBinding peer{.context = known == contexts_.end() ? nullptr : known->second,
                     .ordinal = owner};
  if (peer.context == nullptr) {
    MCCS_ASSIGN_OR_RETURN(peer, DeviceByOrdinal(driver_, owner));
  }
  const CUresult enabled = driver_.CtxEnablePeerAccess(peer.context, 0);
  if (enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return absl::OkStatus();
  return CheckCuda(driver_, enabled, "cuCtxEnablePeerAccess");
}

// The owner's claim is checked here: the daemon cannot. The handle's memory may begin after the
// allocation.
absl::Status KernelMemory::OpenIpc(const wire::MapMemory& request, MemoryCloser::Opened* opened) {
  CUipcMemHandle handle;
  static_assert(sizeof(handle) == sizeof(request.handle));
  std::memcpy(&handle, request.handle, sizeof(handle));
  const CUresult error =
      driver_.IpcOpenMemHandle(&opened->ipc, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (error != CUDA_SUCCESS) return IpcError(driver_, error);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const absl::Status found = CheckCuda(
      driver_, driver_.MemGetAddressRange(&base, &bytes, opened->ipc), "cuMemGetAddressRange");
  const uint64_t left = found.ok() && opened->ipc >= base ? base + bytes - opened->ipc : 0;
  if (left >= request.bytes) return absl::OkStatus();
  closer_->Close(*opened);
  if (!found.ok()) return found;
  return absl::InternalError(
      absl::StrCat("its owner claims ", request.bytes, " bytes, the allocation has ", left));
}

}  // namespace mccs::shim
