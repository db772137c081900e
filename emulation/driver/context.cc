// Contexts: one per GPU, the primary one, which is the only one that runtime programs use.

#include "emulation/driver/entry.h"

namespace mccs::emulation {

CUresult WaitForGpu(const CallContext& session) {
  Engine& engine = session.process->engine;
  return engine.Wait(engine.PendingOfGpu(session.gpu)) ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
}

namespace {

CUresult SynchronizeGpu(const CallContext& session) {
  const auto rejected = session.process->graphs.Reject(
      [&](auto& captures) { return captures.RejectUseOfGpu(session.gpu); });
  if (rejected) return *rejected;
  if (const CUresult waited = WaitForGpu(session); waited != CUDA_SUCCESS) return waited;
  session.process->pools.TrimAll();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  MCCS_ENTER(session);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  session.process->contexts[device]->retained.fetch_add(1);
  *context = session.ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  MCCS_ENTER(session);
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context& context = *session.process->contexts[device];
  int count = context.retained.load();
  do {
    if (count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  } while (!context.retained.compare_exchange_weak(count, count - 1));
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  MCCS_ENTER(session);
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = session.process->contexts[device]->flags.load();
  *active = session.process->contexts[device]->retained.load() > 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  MCCS_ENTER(session);
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  session.process->contexts[device]->flags.store(flags);
  return CUDA_SUCCESS;
}

// Frees the GPU's memory once its work is done. Streams and events stay valid: programs that reset
// a device at exit may destroy them before or after.
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  MCCS_ENTER(session);
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  session.gpu = device;
  if (const CUresult waited = WaitForGpu(session); waited != CUDA_SUCCESS) {
    return waited;
  }
  session.process->pools.OnGpuMemoryFreed(device);
  session.process->memory.FreeAllOf(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  MCCS_ENTER(session);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<int>& stack = CurrentThread().contexts;
  *context = stack.empty() || stack.back() < 0 ? nullptr : session.ContextOf(stack.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  MCCS_ENTER(session);
  std::vector<int>& stack = CurrentThread().contexts;
  const int gpu = context == nullptr ? -1 : session.GpuOf(context);
  if (context != nullptr && gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty()) stack.pop_back();
  if (gpu >= 0) stack.push_back(gpu);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  MCCS_ENTER(session);
  const int gpu = session.GpuOf(context);
  if (gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  CurrentThread().contexts.push_back(gpu);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  MCCS_ENTER(session);
  std::vector<int>& stack = CurrentThread().contexts;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = session.ContextOf(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  MCCS_ENTER_CONTEXT(session);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = session.gpu;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  MCCS_ENTER(session);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int gpu = session.GpuOf(context);
  if (gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *device = gpu;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  MCCS_ENTER_CONTEXT(session);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = session.process->contexts[session.gpu]->flags.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  MCCS_ENTER_CONTEXT(session);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int gpu = context == nullptr ? session.gpu : session.GpuOf(context);
  if (gpu < 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = static_cast<unsigned long long>(gpu) + 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  MCCS_ENTER(session);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  MCCS_ENTER_CONTEXT(session);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  MCCS_ENTER_UNSAFE(session);
  return SynchronizeGpu(session);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (context == nullptr) return cuCtxSynchronize();
  MCCS_ENTER(session);
  session.gpu = session.GpuOf(context);
  if (session.gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (const auto rejected = RejectUnsafe(session)) return *rejected;
  return SynchronizeGpu(session);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const int gpu = session.GpuOf(peer);
  if (gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  return session.process->peers.Enable(session.gpu, gpu);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  MCCS_ENTER_CONTEXT(session);
  const int gpu = session.GpuOf(peer);
  if (gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  return session.process->peers.Disable(session.gpu, gpu);
}

}  // extern "C"

}  // namespace mccs::emulation
