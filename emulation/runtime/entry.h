// Helpers that the runtime's entry points share. The runtime's only state is its errors and the
// names of a program's kernels; the driver library has everything else.
//
// CUresult and cudaError_t use the same number for errors that both have.
#ifndef MCCS_EMULATION_RUNTIME_ENTRY_H_
#define MCCS_EMULATION_RUNTIME_ENTRY_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace mccs::emulation {

// Stores an error for cudaGetLastError and returns it.
cudaError_t Report(cudaError_t error);
inline cudaError_t Report(CUresult result) { return Report(static_cast<cudaError_t>(result)); }

// Calls cuInit, as the runtime does at its first use.
CUresult EnsureInitialized();

// Makes the first GPU's primary context current if the thread has none, as the runtime does.
CUresult EnsureContext();

// Runs `call`, which returns a CUresult, with a current context.
template <typename Call>
cudaError_t WithContext(Call call) {
  const CUresult ready = EnsureContext();
  return Report(ready == CUDA_SUCCESS ? call() : ready);
}
template <typename Call>
cudaError_t WithDriver(Call call) {
  const CUresult ready = EnsureInitialized();
  return Report(ready == CUDA_SUCCESS ? call() : ready);
}

// Returns what stream 0 means in a per-thread variant.
inline cudaStream_t OwnStream(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

inline CUdeviceptr Pointer(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// Returns the driver's handle for a kernel's stub in the program, or null for an unknown one.
CUfunction FunctionOf(const void* host_function);

// Finds PyTorch in the process and gives its operators host versions (emulation/torch).
// Returns true if PyTorch is not loaded, or if its operators run on the host from now on. Returns
// false, after a line on stderr, if PyTorch is loaded and its operators would fail.
// THREAD: any. Searches again until it has found PyTorch, which may be loaded later.
bool StartTorchOperators();

}  // namespace mccs::emulation

// Defines the variant whose stream 0 is the thread's own.
#define MCCS_PER_THREAD(name, suffix, parameters, ...) \
  extern "C" cudaError_t name##_##suffix parameters { return name(__VA_ARGS__); }

// Defines `name`, which forwards to the driver's `call`, from a list of parameters.
#define MCCS_CALL(name, call, ...)                               \
  extern "C" cudaError_t name(__VA_ARGS__) {                     \
    return ::mccs::emulation::WithContext([=] { return call; }); \
  }
// The same for a call that needs no context.
#define MCCS_DRIVER_CALL(name, call, ...)                       \
  extern "C" cudaError_t name(__VA_ARGS__) {                    \
    return ::mccs::emulation::WithDriver([=] { return call; }); \
  }

// Also defines its per-thread variant; the parameters include `stream`.
#define MCCS_STREAM_CALL(name, call, ...)                        \
  MCCS_CALL(name, call, __VA_ARGS__)                             \
  extern "C" cudaError_t name##_ptsz(__VA_ARGS__) {              \
    stream = ::mccs::emulation::OwnStream(stream);               \
    return ::mccs::emulation::WithContext([=] { return call; }); \
  }

#endif  // MCCS_EMULATION_RUNTIME_ENTRY_H_
