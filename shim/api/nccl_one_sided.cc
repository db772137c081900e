// ncclPutSignal, ncclSignal and ncclWaitSignal (NCCL 2.29), which the header of this build lacks.
#include <nccl.h>

#include <cstdint>

#include "base/status_macros.h"
#include "proto/operation.h"
#include "shim/api/exported.h"
#include "shim/calls/collective.h"
#include "shim/daemon/error_message.h"
#include "shim/process/group.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

// ncclWaitSignalDesc_t.
struct WaitSignalDesc {
  int count;  // signals
  int peer;
  int index;
  int context;
};
static_assert(sizeof(WaitSignalDesc) == 16);

struct SignalName {
  int index;
  int context;
};

absl::Status CheckSignal(const char* function, const SignalName& signal) {
  if (signal.index < 0 || signal.index >= kSignalIndices) {
    return ArgumentError(function, "signal index is ", signal.index, "; expected 0 to ",
                         kSignalIndices - 1);
  }
  if (signal.context < 0 || signal.context >= kSignalContexts) {
    return ArgumentError(function, "context is ", signal.context, "; expected 0 to ",
                         kSignalContexts - 1);
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const char* function, unsigned flags) {
  return flags == 0 ? absl::OkStatus()
                    : ArgumentError(function, "flags is ", flags, "; expected 0");
}

// Windows with the same number should have the same size on all ranks. The daemon of the window's
// rank checks the received range.
absl::Status FindWindow(const CollectiveCall& call, ncclWindow_t handle, uint64_t* number) {
  constexpr char kFunction[] = "ncclPutSignal";
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kFunction, call.comm));
  const auto window = comm->registrations().Find(Registrations::Kind::kWindow, handle);
  if (!window) return ArgumentError(kFunction, "peerWin is not a window of this communicator");
  const int type = call.payload.type;
  const uint64_t size = type < 0 || type >= kDataTypes ? 0 : SizeOf(static_cast<DataType>(type));
  const uint64_t offset = call.extras.window_offset;
  uint64_t bytes = 0;
  uint64_t end = 0;
  if (__builtin_mul_overflow(uint64_t{call.payload.count}, size, &bytes) ||
      __builtin_add_overflow(bytes, offset, &end) || end > window->range.bytes) {
    return ArgumentError(kFunction, call.payload.count, " elements of ", size,
                         " bytes at peerWinOffset ", offset, " exceed the window of ",
                         window->range.bytes, " bytes");
  }
  *number = window->window;
  return absl::OkStatus();
}

absl::Status CheckPut(CollectiveCall* call, ncclWindow_t window, const SignalName& signal,
                      unsigned flags) {
  constexpr char kFunction[] = "ncclPutSignal";
  MCCS_RETURN_IF_ERROR(CheckFlags(kFunction, flags));
  MCCS_RETURN_IF_ERROR(CheckSignal(kFunction, signal));
  MCCS_RETURN_IF_ERROR(FindWindow(*call, window, &call->extras.window));
  call->extras.signal = SignalNumber(signal.index, signal.context);
  return absl::OkStatus();
}

// Adds an argument error to the enclosing group.
ncclResult_t ReportInGroup(const absl::Status& status) {
  ImplicitGroup group;
  return group.Finish(status);
}

ncclResult_t PostSignal(ncclComm_t comm, cudaStream_t stream, int peer, const SignalName& signal,
                        unsigned flags) {
  constexpr char kFunction[] = "ncclSignal";
  absl::Status status = CheckFlags(kFunction, flags);
  if (status.ok()) status = CheckSignal(kFunction, signal);
  if (!status.ok()) return ReportInGroup(status);
  return Post({.function = kFunction,
               .kind = OpKind::kSignal,
               .comm = comm,
               .stream = stream,
               .payload = {nullptr, nullptr, 0, ncclInt8},
               .extras = {.peer = peer, .signal = SignalNumber(signal.index, signal.context)}});
}

absl::Status CheckWait(ncclComm_t comm, const WaitSignalDesc* wanted, int count) {
  constexpr char kFunction[] = "ncclWaitSignal";
  MCCS_RETURN_IF_ERROR(FindCommunicator(kFunction, comm).status());
  if (count < 0) return ArgumentError(kFunction, "nDesc is ", count, "; expected 0 or more");
  if (count > 0 && wanted == nullptr) return ArgumentError(kFunction, "signalDescs is NULL");
  for (int i = 0; i < count; ++i) {
    if (wanted[i].count < 0) {
      return ArgumentError(kFunction, "signalDescs[", i, "] waits for ", wanted[i].count,
                           " signals; expected 0 or more");
    }
    MCCS_RETURN_IF_ERROR(CheckSignal(kFunction, {wanted[i].index, wanted[i].context}));
  }
  return absl::OkStatus();
}

// One call per descriptor, in one group: the stream continues when all signals have arrived.
ncclResult_t PostWaits(ncclComm_t comm, cudaStream_t stream, const WaitSignalDesc* wanted,
                       int count) {
  ImplicitGroup group;
  const absl::Status status = CheckWait(comm, wanted, count);
  ncclResult_t posted = ncclSuccess;
  for (int i = 0; status.ok() && posted == ncclSuccess && i < count; ++i) {
    posted = Post({.function = "ncclWaitSignal",
                   .kind = OpKind::kWaitSignal,
                   .comm = comm,
                   .stream = stream,
                   .payload = {nullptr, nullptr, static_cast<size_t>(wanted[i].count), ncclInt8},
                   .extras = {.peer = wanted[i].peer,
                              .signal = SignalNumber(wanted[i].index, wanted[i].context)}});
  }
  const ncclResult_t ended = group.Finish(status);
  return posted == ncclSuccess ? ended : posted;
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT(ncclResult_t, ncclPutSignal)
(const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset,
 int index, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
  shim::CollectiveCall call{.function = "ncclPutSignal",
                            .kind = mccs::OpKind::kPut,
                            .comm = comm,
                            .stream = stream,
                            .payload = {local, nullptr, count, type},
                            .extras = {.peer = peer, .window_offset = offset}};
  const absl::Status status = shim::CheckPut(&call, window, {index, context}, flags);
  return status.ok() ? shim::Post(call) : shim::ReportInGroup(status);
}

MCCS_EXPORT(ncclResult_t, ncclSignal)
(int peer, int index, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
  return shim::PostSignal(comm, stream, peer, {index, context}, flags);
}

MCCS_EXPORT(ncclResult_t, ncclWaitSignal)
(int count, const shim::WaitSignalDesc* wanted, ncclComm_t comm, cudaStream_t stream) {
  return shim::PostWaits(comm, stream, wanted, count);
}
