// ncclCommRegister, ncclCommWindowRegister and what belongs to them. A window here is what NCCL
// makes of one where there is no symmetric memory: an opaque handle by which its buffer is known
// again.
#include <nccl.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/bad_call.h"
#include "shim/error_text.h"
#include "shim/exported.h"
#include "shim/process.h"

namespace mccs::shim {
namespace {

using Kind = Registrations::Kind;

struct Range {
  void* address;
  size_t bytes;
};

// Both ends are CUDA's. What lies between may be many allocations (an expandable segment).
absl::Status CheckRange(const char* function, const DriverApi& driver, const Range& range) {
  if (range.address == nullptr) return Bad(function, "buff is NULL");
  if (range.bytes == 0) return Bad(function, "size is 0");
  const auto first = reinterpret_cast<CUdeviceptr>(range.address);
  CUdeviceptr last = 0;
  if (__builtin_add_overflow(first, range.bytes - 1, &last)) {
    return Bad(function, "size ", range.bytes, " is more than any memory holds");
  }
  for (const CUdeviceptr address : {first, last}) {
    unsigned long long id = 0;
    if (driver.PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS) {
      return Bad(function, "buff 0x", absl::Hex(first), " + ", range.bytes,
                 " bytes is no memory that CUDA knows (never allocated, or freed already, at 0x",
                 absl::Hex(address), ")");
    }
  }
  return absl::OkStatus();
}

template <typename Handle>
absl::Status Add(const char* function, Kind kind, ncclComm_t handle, const Range& range,
                 Handle* given) {
  if (given == nullptr) return Bad(function, "the place for the handle is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(function, handle));
  MCCS_RETURN_IF_ERROR(CheckRange(function, comm->driver(), range));
  *given = static_cast<Handle>(
      comm->registrations().Add(kind, {reinterpret_cast<uintptr_t>(range.address), range.bytes}));
  return absl::OkStatus();
}

absl::Status Remove(const char* function, Kind kind, ncclComm_t handle, void* given) {
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(function, handle));
  // NCCL gives NULL where it registers nothing, and takes it back.
  if (given == nullptr || comm->registrations().Remove(kind, given)) return absl::OkStatus();
  return Bad(function, "this handle was not given by ",
             kind == Kind::kWindow ? "ncclCommWindowRegister" : "ncclCommRegister",
             " for this communicator, or was given back before");
}

absl::Status FindUserPointer(ncclComm_t handle, void* window, void** pointer) {
  constexpr char kFunction[] = "ncclWinGetUserPtr";
  if (pointer == nullptr) return Bad(kFunction, "outUserPtr is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kFunction, handle));
  const std::optional<void*> address = comm->registrations().AddressOf(Kind::kWindow, window);
  if (!address) return Bad(kFunction, "win is no window of this communicator");
  *pointer = *address;
  return absl::OkStatus();
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes,
                                           void** handle) {
  return shim::Report(
      shim::Add("ncclCommRegister", shim::Kind::kBuffer, comm, {buffer, bytes}, handle));
}
MCCS_ALSO_WEAK(ncclCommRegister);

MCCS_EXPORT ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return shim::Report(shim::Remove("ncclCommDeregister", shim::Kind::kBuffer, comm, handle));
}
MCCS_ALSO_WEAK(ncclCommDeregister);

// The flags ask for symmetric memory and for an order of accesses by kernels, which no kernel here
// makes.
MCCS_EXPORT ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                                 ncclWindow_t* window, int) {
  return shim::Report(
      shim::Add("ncclCommWindowRegister", shim::Kind::kWindow, comm, {buffer, bytes}, window));
}
MCCS_ALSO_WEAK(ncclCommWindowRegister);

// NULL is accepted, as by NCCL, which gives it for a buffer that can have no window.
MCCS_EXPORT ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (window == nullptr) return ncclSuccess;
  return shim::Report(shim::Remove("ncclCommWindowDeregister", shim::Kind::kWindow, comm, window));
}
MCCS_ALSO_WEAK(ncclCommWindowDeregister);

// Since 2.29.
MCCS_EXPORT ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer) {
  return shim::Report(shim::FindUserPointer(comm, window, pointer));
}
MCCS_ALSO_WEAK(ncclWinGetUserPtr);
