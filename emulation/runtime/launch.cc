// Kernels: registration by the compiler's start-up code, and launches.

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

struct Variable {
  size_t bytes = 0;
  std::map<int, CUdeviceptr> copies;  // by device, created at the first query
};

// The registrations of the program's start-up code, which runs before main(), perhaps before the
// library's own variables are constructed, hence the function-local object.
struct Program {
  std::mutex mutex;
  std::map<const void*, std::string> kernels;  // by the address of the host stub
  std::map<const void*, Variable> variables;   // by the address of the host's shadow variable
};
Program& TheProgram() {
  static auto* const program = new Program;  // used until the process ends
  return *program;
}

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};
// Launches nest when the evaluation of a launch's arguments launches; rarely more than twice. An
// array, because it outlives the thread's other variables.
constexpr size_t kMaxNestedLaunches = 16;
thread_local LaunchConfiguration pending_configurations[kMaxNestedLaunches];
thread_local size_t pending_count = 0;

CUresult AddressOfVariable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  CUdevice device = 0;
  if (const CUresult result = cuCtxGetDevice(&device); result != CUDA_SUCCESS) return result;
  Program& program = TheProgram();
  std::lock_guard lock(program.mutex);
  const auto found = program.variables.find(symbol);
  if (found == program.variables.end()) return static_cast<CUresult>(cudaErrorInvalidSymbol);
  CUdeviceptr& copy = found->second.copies[device];
  if (copy == 0) {
    const CUresult result = cuMemAlloc(&copy, found->second.bytes);
    if (result != CUDA_SUCCESS) return result;
  }
  *address = copy;
  *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUfunction FunctionOf(const void* host_function) {
  std::string name;
  {
    Program& program = TheProgram();
    std::lock_guard lock(program.mutex);
    const auto found = program.kernels.find(host_function);
    if (found == program.kernels.end()) return nullptr;
    name = found->second;
  }
  CUfunction function = nullptr;
  cuModuleGetFunction(&function, nullptr, name.c_str());
  return function;
}

namespace {

// Converts a host stub, or a handle from cudaGetKernel or cudaGetFuncBySymbol, to the driver's
// function.
CUfunction Resolve(const void* function) {
  if (CUfunction found = FunctionOf(function)) return found;
  return reinterpret_cast<CUfunction>(const_cast<void*>(function));
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;  // never dereferenced
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterUnifiedTable(void**, void*) {}

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  auto& program = TheProgram();
  std::lock_guard lock(program.mutex);
  program.kernels[host_function] = name;
}

void __cudaRegisterVar(void**, char* host_variable, char*, const char*, int, size_t bytes, int,
                       int) {
  auto& program = TheProgram();
  std::lock_guard lock(program.mutex);
  program.variables[host_variable].bytes = bytes;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream stream) {
  using namespace mccs::emulation;
  if (pending_count == kMaxNestedLaunches) return 1;
  pending_configurations[pending_count++] = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  using namespace mccs::emulation;
  if (pending_count == 0) return Report(cudaErrorMissingConfiguration);
  const LaunchConfiguration& last = pending_configurations[--pending_count];
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

MCCS_STREAM_CALL(cudaLaunchKernel,
                 cuLaunchKernel(Resolve(function), grid.x, grid.y, grid.z, block.x, block.y,
                                block.z, static_cast<unsigned>(shared_bytes), stream, arguments,
                                nullptr),
                 const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                 cudaStream_t stream)

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
}
MCCS_PER_THREAD(cudaLaunchCooperativeKernel, ptsz,
                (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                 cudaStream_t stream),
                function, grid, block, arguments, shared_bytes, OwnStream(stream))

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
MCCS_PER_THREAD(__cudaLaunchKernel, ptsz,
                (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                 cudaStream_t stream),
                kernel, grid, block, arguments, shared_bytes, OwnStream(stream))

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (config == nullptr) return Report(cudaErrorInvalidValue);
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** arguments) {
  if (config == nullptr) return Report(cudaErrorInvalidValue);
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, OwnStream(config->stream));
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  CUfunction found = nullptr;
  const cudaError_t error = WithContext([&] {
    found = FunctionOf(function);
    return found == nullptr ? static_cast<CUresult>(cudaErrorInvalidDeviceFunction) : CUDA_SUCCESS;
  });
  if (error == cudaSuccess) *kernel = reinterpret_cast<cudaKernel_t>(found);
  return error;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* result, const void* function) {
  return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(result), function);
}

MCCS_CALL(cudaFuncGetName, cuFuncGetName(name, Resolve(function)), const char** name,
          const void* function)

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    memset(attributes, 0, sizeof(*attributes));
    CUfunction resolved = Resolve(function);
    const auto ask = [resolved](int* value, CUfunction_attribute attribute) {
      return cuFuncGetAttribute(value, attribute, resolved);
    };
    ask(&attributes->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
    ask(&attributes->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
    ask(&attributes->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    ask(&attributes->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    return ask(&attributes->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  });
}

MCCS_CALL(cudaFuncSetAttribute,
          cuFuncSetAttribute(Resolve(function), static_cast<CUfunction_attribute>(attribute),
                             value),
          const void* function, cudaFuncAttribute attribute, int value)

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return FunctionOf(function) == nullptr ? Report(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block_size, size_t,
                                                                   unsigned int) {
  constexpr int kThreadsPerMultiprocessor = 2048;
  constexpr int kBlocksPerMultiprocessor = 32;
  if (blocks == nullptr || block_size <= 0) return Report(cudaErrorInvalidValue);
  const int fitting = kThreadsPerMultiprocessor / block_size;
  *blocks = fitting < kBlocksPerMultiprocessor ? fitting : kBlocksPerMultiprocessor;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, 0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUdeviceptr found = 0;
    size_t bytes = 0;
    const CUresult result = AddressOfVariable(symbol, &found, &bytes);
    *address = reinterpret_cast<void*>(found);
    return result;
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  if (bytes == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUdeviceptr found = 0;
    return AddressOfVariable(symbol, &found, bytes);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
  if (error != cudaSuccess) return error;
  return cudaMemcpy(static_cast<char*>(address) + offset, from, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
  if (error != cudaSuccess) return error;
  return cudaMemcpy(to, static_cast<char*>(address) + offset, bytes, kind);
}

}  // extern "C"

}  // namespace mccs::emulation
