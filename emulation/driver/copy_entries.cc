// The functions that copy and fill.

#include "emulation/driver/work_requests.h"

namespace mccs::emulation {
namespace {

void* Address(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

CUresult Copy(CUstream stream, void* to, CopyEnd to_end, const void* from, CopyEnd from_end,
              size_t bytes, bool asynchronous) {
  CopyRequest request;
  request.rows.to = to;
  request.rows.from = from;
  request.rows.row_bytes = bytes;
  request.to = to_end;
  request.from = from_end;
  request.asynchronous = asynchronous;
  return SubmitCopy(stream, std::move(request));
}

// `copy`: a description in two or three dimensions.
template <typename Description>
CUresult CopyPlanes(CUstream stream, const Description* copy, bool asynchronous) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto request = RequestOf(*copy);
  if (!request) return CUDA_ERROR_NOT_SUPPORTED;
  request->asynchronous = asynchronous;
  return SubmitCopy(stream, std::move(*request));
}

CUresult Fill(CUstream stream, CUdeviceptr to, uint32_t value, uint32_t element_bytes,
              size_t elements, bool asynchronous) {
  FillRows fill;
  fill.to = Address(to);
  fill.value = value;
  fill.element_bytes = element_bytes;
  fill.row_elements = elements;
  return SubmitFill(stream, fill, asynchronous);
}

CUresult Fill2D(CUstream stream, CUdeviceptr to, size_t pitch, uint32_t value,
                uint32_t element_bytes, size_t width, size_t height, bool asynchronous) {
  const FillRows fill{.to = Address(to),
                      .value = value,
                      .element_bytes = element_bytes,
                      .row_elements = width,
                      .rows = height,
                      .pitch = pitch};
  return SubmitFill(stream, fill, asynchronous);
}

}  // namespace

// Defines a synchronous function on the legacy default stream and on the thread's own (_ptds), and
// the asynchronous one with its per-thread variant (_ptsz). `call` uses `stream` and
// `asynchronous`.
#define MCCS_MOVE(name, parameters, call)                \
  extern "C" CUresult name parameters {                  \
    constexpr bool asynchronous = false;                 \
    CUstream const stream = CU_STREAM_LEGACY;            \
    return call;                                         \
  }                                                      \
  extern "C" CUresult MCCS_JOIN(name, ptds) parameters { \
    constexpr bool asynchronous = false;                 \
    CUstream const stream = CU_STREAM_PER_THREAD;        \
    return call;                                         \
  }
#define MCCS_MOVE_ASYNC(name, call, ...)                                   \
  extern "C" CUresult name(__VA_ARGS__, CUstream stream) {                 \
    constexpr bool asynchronous = true;                                    \
    return call;                                                           \
  }                                                                        \
  extern "C" CUresult MCCS_JOIN(name, ptsz)(__VA_ARGS__, CUstream given) { \
    constexpr bool asynchronous = true;                                    \
    CUstream const stream = OwnStream(given);                              \
    return call;                                                           \
  }

#define MCCS_COPY_ANY \
  Copy(stream, Address(to), CopyEnd::kAny, Address(from), CopyEnd::kAny, bytes, asynchronous)
MCCS_MOVE(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), MCCS_COPY_ANY)
MCCS_MOVE_ASYNC(cuMemcpyAsync, MCCS_COPY_ANY, CUdeviceptr to, CUdeviceptr from, size_t bytes)

#define MCCS_COPY_TO_DEVICE \
  Copy(stream, Address(to), CopyEnd::kDevice, from, CopyEnd::kHost, bytes, asynchronous)
MCCS_MOVE(cuMemcpyHtoD, (CUdeviceptr to, const void* from, size_t bytes), MCCS_COPY_TO_DEVICE)
MCCS_MOVE_ASYNC(cuMemcpyHtoDAsync, MCCS_COPY_TO_DEVICE, CUdeviceptr to, const void* from,
                size_t bytes)

#define MCCS_COPY_TO_HOST \
  Copy(stream, to, CopyEnd::kHost, Address(from), CopyEnd::kDevice, bytes, asynchronous)
MCCS_MOVE(cuMemcpyDtoH, (void* to, CUdeviceptr from, size_t bytes), MCCS_COPY_TO_HOST)
MCCS_MOVE_ASYNC(cuMemcpyDtoHAsync, MCCS_COPY_TO_HOST, void* to, CUdeviceptr from, size_t bytes)

#define MCCS_COPY_WITHIN \
  Copy(stream, Address(to), CopyEnd::kDevice, Address(from), CopyEnd::kDevice, bytes, asynchronous)
MCCS_MOVE(cuMemcpyDtoD, (CUdeviceptr to, CUdeviceptr from, size_t bytes), MCCS_COPY_WITHIN)
MCCS_MOVE_ASYNC(cuMemcpyDtoDAsync, MCCS_COPY_WITHIN, CUdeviceptr to, CUdeviceptr from, size_t bytes)

MCCS_MOVE(cuMemcpyPeer, (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes),
          MCCS_COPY_WITHIN)
MCCS_MOVE_ASYNC(cuMemcpyPeerAsync, MCCS_COPY_WITHIN, CUdeviceptr to, CUcontext, CUdeviceptr from,
                CUcontext, size_t bytes)

MCCS_MOVE(cuMemcpy2D, (const CUDA_MEMCPY2D* copy), CopyPlanes(stream, copy, asynchronous))
MCCS_MOVE(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D* copy), CopyPlanes(stream, copy, asynchronous))
MCCS_MOVE_ASYNC(cuMemcpy2DAsync, CopyPlanes(stream, copy, asynchronous), const CUDA_MEMCPY2D* copy)
MCCS_MOVE(cuMemcpy3D, (const CUDA_MEMCPY3D* copy), CopyPlanes(stream, copy, asynchronous))
MCCS_MOVE_ASYNC(cuMemcpy3DAsync, CopyPlanes(stream, copy, asynchronous), const CUDA_MEMCPY3D* copy)

#define MCCS_FILL(bytes) Fill(stream, to, value, bytes, count, asynchronous)
MCCS_MOVE(cuMemsetD8, (CUdeviceptr to, unsigned char value, size_t count), MCCS_FILL(1))
MCCS_MOVE(cuMemsetD16, (CUdeviceptr to, unsigned short value, size_t count), MCCS_FILL(2))
MCCS_MOVE(cuMemsetD32, (CUdeviceptr to, unsigned int value, size_t count), MCCS_FILL(4))
MCCS_MOVE_ASYNC(cuMemsetD8Async, MCCS_FILL(1), CUdeviceptr to, unsigned char value, size_t count)
MCCS_MOVE_ASYNC(cuMemsetD16Async, MCCS_FILL(2), CUdeviceptr to, unsigned short value, size_t count)
MCCS_MOVE_ASYNC(cuMemsetD32Async, MCCS_FILL(4), CUdeviceptr to, unsigned int value, size_t count)

#define MCCS_FILL_2D(bytes) Fill2D(stream, to, pitch, value, bytes, width, height, asynchronous)
MCCS_MOVE(cuMemsetD2D8,
          (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
          MCCS_FILL_2D(1))
MCCS_MOVE(cuMemsetD2D16,
          (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
          MCCS_FILL_2D(2))
MCCS_MOVE(cuMemsetD2D32,
          (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
          MCCS_FILL_2D(4))
MCCS_MOVE_ASYNC(cuMemsetD2D8Async, MCCS_FILL_2D(1), CUdeviceptr to, size_t pitch,
                unsigned char value, size_t width, size_t height)
MCCS_MOVE_ASYNC(cuMemsetD2D16Async, MCCS_FILL_2D(2), CUdeviceptr to, size_t pitch,
                unsigned short value, size_t width, size_t height)
MCCS_MOVE_ASYNC(cuMemsetD2D32Async, MCCS_FILL_2D(4), CUdeviceptr to, size_t pitch,
                unsigned int value, size_t width, size_t height)

}  // namespace mccs::emulation
