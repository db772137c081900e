// Modules, functions and launches. The emulation's modules contain no code: a function is a name,
// and a launch runs the host version that is registered under it.

#include <atomic>
#include <cstring>
#include <utility>

#include "emulation/driver/work_requests.h"

namespace mccs::emulation {
namespace {

// The only module and library: it has a function for any name.
char g_module;

CUresult GetFunction(const char* name, CUfunction* function) {
  MCCS_ENTER(session);
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const NamedKernel* kernel = session.process->kernels.Name(name);
  *function = reinterpret_cast<CUfunction>(const_cast<NamedKernel*>(kernel));
  return CUDA_SUCCESS;
}

// Returns the kernel behind a handle, or null.
const NamedKernel* Named(const CallContext& session, const void* handle) {
  if (!session.process->kernels.IsHandle(handle)) return nullptr;
  return static_cast<const NamedKernel*>(handle);
}

CUresult Launch(CUfunction function, const MccsEmulatedLaunch& launch, CUstream stream,
                void** parameters, void** extra) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  session.gpu = found->options.gpu;
  std::optional<KernelCall> call;
  const CUresult known = PrepareCall(session, function, launch, parameters, extra, &call);
  if (known != CUDA_SUCCESS) return known;
  const auto captured =
      session.process->graphs.AddNodeIfCapturing(*found, [&] { return std::move(*call); });
  if (captured) return *captured;
  ++call->kernel->launches;
  Engine& engine = session.process->engine;
  const bool blocking = call->launch.blocking();
  if (const CUresult failed = session.process->CountLaunch(session.gpu); failed != CUDA_SUCCESS)
    return failed;
  engine.Enqueue(found, WorkOf(*call));
  const bool ended = blocking && !engine.Wait(engine.PendingOf(found));
  return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

template <typename Description>
int Register(const Description* kernel) {
  if (kernel == nullptr || StartProcess() == CUDA_ERROR_INVALID_VALUE) return -1;
  CallContext session;
  if (session.Enter() != CUDA_SUCCESS) return -1;
  return session.process->kernels.Register(*kernel) ? 0 : -1;
}

std::atomic<bool> g_assertion_failed{false};

}  // namespace

CUresult PrepareCall(const CallContext& session, CUfunction function, MccsEmulatedLaunch launch,
                     void** parameters, void** extra, std::optional<KernelCall>* call) {
  const NamedKernel* name = Named(session, function);
  if (name == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0 || launch.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<const HostKernel> kernel = session.process->kernels.Find(name->name);
  if (kernel == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  // One packed buffer instead of pointers: no supported program launches so.
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (parameters == nullptr && !kernel->argument_bytes.empty()) return CUDA_ERROR_INVALID_VALUE;
  launch.device = session.gpu;
  call->emplace(KernelCall{name, PreparedLaunch(kernel, launch, parameters), std::nullopt});
  if (!kernel->watches) return CUDA_SUCCESS;
  (*call)->watch.emplace();
  return MakeWatch(session, *static_cast<const CUdeviceptr*>(parameters[0]),
                   *static_cast<const uint64_t*>(parameters[1]), &*(*call)->watch);
}

extern "C" {

int mccsEmulationRegisterKernel(const MccsEmulatedKernel* kernel) { return Register(kernel); }

int mccsEmulationRegisterResumableKernel(const MccsEmulatedResumableKernel* kernel) {
  return Register(kernel);
}

uint64_t mccsEmulationLaunches(const char* name) {
  CallContext session;
  if (name == nullptr || session.Enter() != CUDA_SUCCESS) return 0;
  return session.process->kernels.Name(name)->launches.load();
}

void mccsEmulationFailAssertion() { g_assertion_failed.store(true); }

int mccsEmulationAssertionFailed() { return g_assertion_failed.load() ? 1 : 0; }

CUresult cuModuleLoad(CUmodule* module, const char*) {
  MCCS_ENTER_CONTEXT(session);
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(&g_module);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void*) { return cuModuleLoad(module, nullptr); }

CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned int, CUjit_option*, void**) {
  return cuModuleLoad(module, nullptr);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void*) {
  return cuModuleLoad(module, nullptr);
}

CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return GetFunction(name, function);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned int,
                           CUlibraryOption*, void**, unsigned int) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(&g_module);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return GetFunction(name, reinterpret_cast<CUfunction*>(kernel));
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  MCCS_ENTER_CONTEXT(session);
  return Named(session, function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  MCCS_ENTER(session);
  const NamedKernel* kernel = Named(session, function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

// Returns the values of a kernel of modest size.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  MCCS_ENTER(session);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (Named(session, function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = 48 * 1024;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int) {
  MCCS_ENTER(session);
  return Named(session, function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** parameters, void** extra) {
  const MccsEmulatedLaunch launch{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0};
  return Launch(function, launch, stream, parameters, extra);
}
MCCS_PER_THREAD(cuLaunchKernel, ptsz,
                (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                 unsigned int block_x, unsigned int block_y, unsigned int block_z,
                 unsigned int shared_bytes, CUstream stream, void** parameters, void** extra),
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                OwnStream(stream), parameters, extra)

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                        config->blockDimX, config->blockDimY, config->blockDimZ,
                        config->sharedMemBytes, config->hStream, parameters, extra);
}

CUresult MCCS_JOIN(cuLaunchKernelEx, ptsz)(const CUlaunchConfig* config, CUfunction function,
                                           void** parameters, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own = *config;
  own.hStream = OwnStream(config->hStream);
  return cuLaunchKernelEx(&own, function, parameters, extra);
}

}  // extern "C"

}  // namespace mccs::emulation
