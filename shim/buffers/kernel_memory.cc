#include "shim/buffers/kernel_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/config/diagnostics.h"
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

// Nothing: the message has another size.
template <typename Message>
std::optional<Message> ReadAs(const Reply& reply) {
  if (reply.size != sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, reply.bytes, sizeof(message));
  return message;
}

}  // namespace

KernelMemory::KernelMemory(const DriverApi& driver, DaemonClient& client)
    : driver_(driver), client_(client), closer_(driver), copier_(driver) {
  client_.SetMemoryHandler([this](Reply message) { OnMessage(std::move(message)); });
}

// Mappings stay: streams may hold launches that use them.
KernelMemory::~KernelMemory() {
  client_.SetMemoryHandler(nullptr);
  for (auto& [number, mapping] : mappings_) {
    if (mapping.host != nullptr) mapping.host->Keep();
  }
}

void KernelMemory::SetContext(const DeviceBinding& device) {
  std::lock_guard lock(mutex_);
  contexts_.try_emplace(device.ordinal, device.context);
}

void KernelMemory::EndCopiesInto(const AddressRange& range, bool freed) {
  constexpr std::chrono::seconds kCopyLimit{1};
  if (copier_.idle()) return;
  AddressRange ending = range;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (freed && driver_.MemGetAddressRange(&base, &bytes, range.base) == CUDA_SUCCESS &&
      base == range.base) {
    ending.bytes = std::max<uint64_t>(range.bytes, bytes);
  }
  if (freed) copier_.DropInto(ending);
  if (copier_.AwaitRunning(ending, kCopyLimit) || !IsLogged(Verbosity::kWarn)) return;
  LogLine(Verbosity::kWarn,
          absl::StrCat("a put is still being copied into memory at 0x", absl::Hex(range.base),
                       freed ? ", which is freed" : ", whose window or communicator has ended",
                       ": a call of CUDA holds up the copy, which may overwrite what the program "
                       "writes there"));
}

void KernelMemory::OnMessage(Reply message) {
  wire::MessageHeader header;
  std::memcpy(&header, message.bytes, sizeof(header));
  std::lock_guard lock(mutex_);
  switch (header.kind) {
    case wire::MessageKind::kMapMemory:
      if (const auto request = ReadAs<wire::MapMemory>(message)) OnMap(*request, message);
      break;
    case wire::MessageKind::kUnmapMemory:
      if (const auto request = ReadAs<wire::UnmapMemory>(message)) OnUnmap(*request);
      break;
    case wire::MessageKind::kCopyMemory:
      if (const auto request = ReadAs<wire::CopyMemory>(message)) OnCopy(*request);
      break;
    case wire::MessageKind::kDropCopy:
      if (const auto request = ReadAs<wire::DropCopy>(message)) copier_.Drop(request->copy);
      break;
    default:
      break;
  }
}

void KernelMemory::OnMap(const wire::MapMemory& request, Reply& message) {
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

// Copies that have not ended keep what they read.
void KernelMemory::OnUnmap(const wire::UnmapMemory& request) {
  if (auto mapping = mappings_.extract(request.memory)) closer_.Close(std::move(mapping.mapped()));
  wire::MemoryUnmapped answer{};
  answer.memory = request.memory;
  client_.SendOneWay(answer);
}

void KernelMemory::OnCopy(const wire::CopyMemory& request) {
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
  copier_.Add({.number = request.copy,
               .context = context->second,
               .to = {request.to, request.bytes},
               .from = request.from,
               .source = SourceOf({request.from, request.bytes}),
               .done = answer});
}

std::shared_ptr<const void> KernelMemory::SourceOf(const AddressRange& range) const {
  for (const auto& [number, mapping] : mappings_) {
    if (mapping.host != nullptr && mapping.host->range().Contains(range)) return mapping.host;
  }
  return nullptr;
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
  opened->host =
      std::make_shared<RegisteredHostMemory>(driver_, known->second, std::move(memory), *address);
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
  closer_.Close(*opened);
  if (!found.ok()) return found;
  return absl::InternalError(
      absl::StrCat("its owner claims ", request.bytes, " bytes, the allocation has ", left));
}

}  // namespace mccs::shim
