// ncclCommRegister, ncclCommWindowRegister and related functions. A window is an opaque handle; the
// daemon knows its number and its memory, so that other ranks can put into it.
#include <nccl.h>

#include <chrono>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/api/exported.h"
#include "shim/daemon/error_message.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

using Kind = Registrations::Kind;

struct Range {
  void* address;
  size_t bytes;
};

// Both ends must be CUDA memory. Many allocations may lie between them (an expandable segment).
absl::Status CheckRange(const char* function, const DriverApi& driver, const Range& range) {
  if (range.address == nullptr) return ArgumentError(function, "buff is NULL");
  if (range.bytes == 0) return ArgumentError(function, "size is 0");
  const auto first = reinterpret_cast<CUdeviceptr>(range.address);
  CUdeviceptr last = 0;
  if (__builtin_add_overflow(first, range.bytes - 1, &last)) {
    return ArgumentError(function, "size ", range.bytes, " exceeds the address space");
  }
  for (const CUdeviceptr address : {first, last}) {
    unsigned long long id = 0;
    if (driver.PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS) {
      return ArgumentError(function, "buff 0x", absl::Hex(first), " + ", range.bytes,
                           " bytes is not CUDA memory at 0x", absl::Hex(address),
                           ": it was never allocated or is already freed");
    }
  }
  return absl::OkStatus();
}

AddressRange AddressesOf(const Range& range) {
  return {reinterpret_cast<uintptr_t>(range.address), range.bytes};
}

absl::Status AddBuffer(ncclComm_t handle, const Range& range, void** given) {
  constexpr char kFunction[] = "ncclCommRegister";
  if (given == nullptr) return ArgumentError(kFunction, "handle is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kFunction, handle));
  MCCS_RETURN_IF_ERROR(CheckRange(kFunction, comm->driver(), range));
  *given = comm->registrations().Add(Kind::kBuffer, AddressesOf(range));
  return absl::OkStatus();
}

// A daemon that takes longer to reply counts as stuck.
constexpr std::chrono::seconds kWindowTimeout{30};

template <typename Message>
absl::Status RequestAndWait(Communicator& comm, const Message& message) {
  DaemonClient& daemon = *comm.session()->client;
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, daemon.Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, daemon.Await(request, kWindowTimeout));
  return reply.As<wire::Done>().status();
}

// The window's place at the daemon; id 0 if it cannot map memory of this kind, so that puts into
// the window fail.
absl::StatusOr<wire::BufferRef> PlaceOf(Communicator& comm, const char* function,
                                        const Range& range) {
  ScopedContext context(comm.driver(), comm.context());
  MCCS_ASSIGN_OR_RETURN(const BufferExports::Found found,
                        comm.session()->buffers.Find({.function = function,
                                                      .argument = "buff",
                                                      .address = range.address,
                                                      .bytes = range.bytes}));
  return found.place.staged ? wire::BufferRef{} : found.place.ref;
}

// Sends a request whose reply is not needed.
template <typename Message>
void SendWithoutWaiting(Communicator& comm, const Message& message) {
  DaemonClient& daemon = *comm.session()->client;
  if (const auto sent = daemon.Send(message); sent.ok()) daemon.IgnoreReply(*sent);
}

// The number is always sent to the daemon, so that daemon and other ranks use the same numbers.
absl::Status OpenWindow(Communicator& comm, const char* function, const Range& range,
                        uint64_t number) {
  wire::RegisterWindow message{};
  message.comm_handle = comm.handle();
  message.number = number;
  const absl::StatusOr<wire::BufferRef> place = PlaceOf(comm, function, range);
  if (!place.ok()) {
    SendWithoutWaiting(comm, message);
    return place.status();
  }
  message.bytes = range.bytes;
  message.memory = *place;
  const absl::Status opened = RequestAndWait(comm, message);
  if (opened.ok()) return opened;
  // A slow daemon may still open it.
  wire::DeregisterWindow close{};
  close.comm_handle = comm.handle();
  close.number = number;
  SendWithoutWaiting(comm, close);
  return opened;
}

absl::Status AddWindow(ncclComm_t handle, const Range& range, ncclWindow_t* given) {
  constexpr char kFunction[] = "ncclCommWindowRegister";
  if (given == nullptr) return ArgumentError(kFunction, "win is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kFunction, handle));
  MCCS_RETURN_IF_ERROR(CheckRange(kFunction, comm->driver(), range));
  MCCS_RETURN_IF_ERROR(comm->CheckUsable());
  Registrations& registrations = comm->registrations();
  std::lock_guard lock(registrations.window_mutex());
  const uint64_t number = ++registrations.last_window();
  void* const window = registrations.Add(Kind::kWindow, AddressesOf(range), number);
  if (absl::Status opened = OpenWindow(*comm, kFunction, range, number); !opened.ok()) {
    registrations.Remove(Kind::kWindow, window);
    return opened;
  }
  *given = static_cast<ncclWindow_t>(window);
  return absl::OkStatus();
}

// Ends puts into the window. The daemon has no window of a communicator that is not operational.
void CloseWindow(const CommRef& comm, void* given) {
  const auto window = comm->registrations().Find(Kind::kWindow, given);
  if (!window || !comm->CheckParent(/*failed_too=*/true).ok()) return;
  wire::DeregisterWindow message{};
  message.comm_handle = comm->handle();
  message.number = window->window;
  // If the daemon does not reply, the communicator fails; the window is closed in any case.
  (void)RequestAndWait(*comm, message);
  comm->session()->kernel_memory.EndCopiesInto(window->range, /*freed=*/false);
}

absl::Status Remove(const char* function, Kind kind, ncclComm_t handle, void* given) {
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(function, handle));
  if (kind == Kind::kWindow) CloseWindow(comm, given);
  // NCCL returns NULL if it registers nothing, and accepts it here.
  if (given == nullptr || comm->registrations().Remove(kind, given)) return absl::OkStatus();
  return ArgumentError(function, "this handle is not from ",
                       kind == Kind::kWindow ? "ncclCommWindowRegister" : "ncclCommRegister",
                       " for this communicator, or is deregistered already");
}

absl::Status FindUserPointer(ncclComm_t handle, void* window, void** pointer) {
  constexpr char kFunction[] = "ncclWinGetUserPtr";
  if (pointer == nullptr) return ArgumentError(kFunction, "outUserPtr is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kFunction, handle));
  const auto entry = comm->registrations().Find(Kind::kWindow, window);
  if (!entry) return ArgumentError(kFunction, "win is not a window of this communicator");
  *pointer = reinterpret_cast<void*>(entry->range.base);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT(ncclResult_t, ncclCommRegister)
(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return shim::Report(shim::AddBuffer(comm, {buffer, bytes}, handle));
}

MCCS_EXPORT(ncclResult_t, ncclCommDeregister)(const ncclComm_t comm, void* handle) {
  return shim::Report(shim::Remove("ncclCommDeregister", shim::Kind::kBuffer, comm, handle));
}

// The flags request symmetric memory and an order of accesses by kernels, which MCCS does not use.
MCCS_EXPORT(ncclResult_t, ncclCommWindowRegister)
(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int) {
  return shim::Report(shim::AddWindow(comm, {buffer, bytes}, window));
}

// Accepts NULL as NCCL does, which returns it for a buffer without a window.
MCCS_EXPORT(ncclResult_t, ncclCommWindowDeregister)(ncclComm_t comm, ncclWindow_t window) {
  if (window == nullptr) return ncclSuccess;
  return shim::Report(shim::Remove("ncclCommWindowDeregister", shim::Kind::kWindow, comm, window));
}

// Since 2.29.
MCCS_EXPORT(ncclResult_t, ncclWinGetUserPtr)(ncclComm_t comm, ncclWindow_t window, void** pointer) {
  return shim::Report(shim::FindUserPointer(comm, window, pointer));
}
