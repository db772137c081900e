// Helpers that the driver's entry points share.
//
// Each function of the API is defined under the name that cuda.h gives it (cuMemAlloc is
// cuMemAlloc_v2). Variants for per-thread default streams differ only in the meaning of stream 0.
#ifndef MCCS_EMULATION_DRIVER_ENTRY_H_
#define MCCS_EMULATION_DRIVER_ENTRY_H_

#include <cuda.h>

#include "emulation/core/process.h"

// Return from the function unless CUDA is initialized (ENTER) and a context is current
// (ENTER_CONTEXT).
#define MCCS_ENTER(session)               \
  ::mccs::emulation::CallContext session; \
  if (const CUresult entered = session.Enter(); entered != CUDA_SUCCESS) return entered
#define MCCS_ENTER_CONTEXT(session)       \
  ::mccs::emulation::CallContext session; \
  if (const CUresult entered = session.EnterContext(); entered != CUDA_SUCCESS) return entered
// For calls that may block on streams: rejected while a capture forbids them.
#define MCCS_ENTER_UNSAFE(session) \
  MCCS_ENTER_CONTEXT(session);     \
  if (const auto rejected = ::mccs::emulation::RejectUnsafe(session)) return *rejected

// Defines the variant of `name` whose stream 0 is the thread's own. `suffix`: ptsz for functions
// that take a stream, ptds for those that use the default one. `parameters` are in parentheses,
// followed by the arguments of the call.
#define MCCS_JOIN2(a, b) a##_##b
#define MCCS_JOIN(a, b) MCCS_JOIN2(a, b)
#define MCCS_PER_THREAD(name, suffix, parameters, ...) \
  extern "C" CUresult MCCS_JOIN(name, suffix) parameters { return name(__VA_ARGS__); }

// Defines `name` and its per-thread variant from one list of parameters, which includes `stream`;
// both return `call`.
#define MCCS_STREAM_CALL(name, call, ...)                  \
  extern "C" CUresult name(__VA_ARGS__) { return call; }   \
  extern "C" CUresult MCCS_JOIN(name, ptsz)(__VA_ARGS__) { \
    stream = ::mccs::emulation::OwnStream(stream);         \
    return call;                                           \
  }

namespace mccs::emulation {

// Returns what stream 0 means in a per-thread variant.
inline CUstream OwnStream(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

// Blocks on all work of a GPU, as a free does. CUDA_ERROR_DEINITIALIZED: the process exits
// meanwhile.
[[nodiscard]] CUresult WaitForGpu(const CallContext& session);

inline std::optional<CUresult> RejectUnsafe(const CallContext& session) {
  return session.process->graphs.Reject(
      [](CaptureTable& captures) { return captures.RejectUnsafe(CurrentThread().capture_mode); });
}

// For calls that query a stream or wait for it.
inline std::optional<CUresult> RejectIfCapturing(const CallContext& session, const Stream& stream) {
  return session.process->graphs.Reject(
      [&stream](CaptureTable& captures) { return captures.RejectUseOf(stream); });
}

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_ENTRY_H_
