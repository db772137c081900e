// Replacements for the functions that free GPU memory: they notify the listener, then forward the
// call.
//
// Programs also get the addresses of cuMemFree and cuMemUnmap from cuGetProcAddress and from the
// runtime's cudaGetDriverEntryPoint (as PyTorch does): these return our functions. Two kinds of
// frees are not seen: those through addresses from dlsym(), and those of a statically linked
// runtime, which finds the driver by dlsym(). Frees of pool memory are not reported, because it
// cannot be shared.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "free_hooks/listener.h"

using mccs::free_hooks::Listener;

namespace {

// One function that this library replaces. THREAD: any. Needs no constructor, because calls arrive
// before this library's constructors run, and after its destructors.
struct ReplacedFunction {
  const char* name;
  std::atomic<void*> real = nullptr;  // once resolved; every thread resolves the same
};

// Any address within this library.
const char kOwn = 0;

bool IsOurs(void* address) {
  Dl_info found;
  Dl_info own;
  return dladdr(address, &found) != 0 && dladdr(&kOwn, &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

// Looks it up in the scope of the file that contains the caller.
void* FindInCallersScope(const char* name, const void* caller) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return nullptr;
  }
  const char* const file = map->l_name[0] != '\0' ? map->l_name : nullptr;  // null: the program
  void* const handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);  // it stays loaded by other references
  return found;
}

// Returns the function that a call would have reached without this library.
// Searches after this library in the program's search order, then among the libraries that the
// caller was linked with (a privately opened CUDA library). Null if there is none.
void* NextDefinition(ReplacedFunction& function, const void* caller) {
  void* real = function.real.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  real = dlsym(RTLD_NEXT, function.name);
  if (real == nullptr) real = FindInCallersScope(function.name, caller);
  if (real == nullptr || IsOurs(real)) return nullptr;
  function.real.store(real, std::memory_order_relaxed);
  return real;
}

#define MCCS_EXPORTED extern "C" __attribute__((visibility("default")))

constinit std::atomic<Listener> the_listener{
    nullptr};  // release; pairs with the acquire in NotifyListener

constinit ReplacedFunction cuda_free{"cudaFree"};
constinit ReplacedFunction mem_free{"cuMemFree_v2"};
constinit ReplacedFunction mem_unmap{"cuMemUnmap"};

void NotifyListener(CUdeviceptr address, size_t bytes) {
  const Listener listener = the_listener.load(std::memory_order_acquire);
  if (listener != nullptr && address != 0 && bytes != 0) listener(address, bytes);
}

CUresult MemFree(CUdeviceptr address, const void* caller) {
  void* const real = NextDefinition(mem_free, caller);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
  NotifyListener(address, 1);
  return reinterpret_cast<CUresult (*)(CUdeviceptr)>(real)(address);
}

CUresult MemUnmap(CUdeviceptr address, size_t bytes, const void* caller) {
  void* const real = NextDefinition(mem_unmap, caller);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
  NotifyListener(address, bytes);
  return reinterpret_cast<CUresult (*)(CUdeviceptr, size_t)>(real)(address, bytes);
}

// Replaces the real function that `symbol` resolved to by ours.
void ReplaceSymbol(const char* symbol, void** function) {
  if (symbol == nullptr || function == nullptr || *function == nullptr) return;
  const auto take = [function](ReplacedFunction& replaced, auto* own) {
    void* const ours = reinterpret_cast<void*>(own);
    if (*function == ours) return;
    void* none = nullptr;  // keeps a definition that was found by name
    replaced.real.compare_exchange_strong(none, *function, std::memory_order_relaxed);
    *function = ours;
  };
  if (std::strcmp(symbol, "cuMemFree") == 0) take(mem_free, &cuMemFree);
  if (std::strcmp(symbol, "cuMemUnmap") == 0) take(mem_unmap, &cuMemUnmap);
}

// Calls one of the functions that return addresses, and corrects its result.
template <typename Result, typename... Arguments>
Result QueryAddress(ReplacedFunction& query, const void* caller, Result missing, const char* symbol,
                    void** function, Arguments... rest) {
  void* const real = NextDefinition(query, caller);
  if (real == nullptr) return missing;
  const Result result = reinterpret_cast<Result (*)(const char*, void**, Arguments...)>(real)(
      symbol, function, rest...);
  if (result == Result{}) ReplaceSymbol(symbol, function);
  return result;
}

}  // namespace

// ---- Listener ----------------------------------------------------------------------------------

MCCS_EXPORTED void mccs_free_hooks_listen(Listener listener) {
  the_listener.store(listener, std::memory_order_release);
}

// ---- Frees -------------------------------------------------------------------------------------

MCCS_EXPORTED cudaError_t cudaFree(void* memory) {
  void* const real = NextDefinition(cuda_free, __builtin_return_address(0));
  if (real == nullptr) return cudaErrorSharedObjectSymbolNotFound;
  NotifyListener(reinterpret_cast<CUdeviceptr>(memory), 1);
  return reinterpret_cast<cudaError_t (*)(void*)>(real)(memory);
}

// cuda.h gives it its real name, cuMemFree_v2.
MCCS_EXPORTED CUresult cuMemFree(CUdeviceptr address) {
  return MemFree(address, __builtin_return_address(0));
}

MCCS_EXPORTED CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return MemUnmap(address, bytes, __builtin_return_address(0));
}

// ---- Addresses of frees ------------------------------------------------------------------------

MCCS_EXPORTED CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                        cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  static constinit ReplacedFunction query{"cuGetProcAddress_v2"};
  return QueryAddress(query, __builtin_return_address(0), CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
                      symbol, function, version, flags, status);
}

#define MCCS_ENTRY_POINT_FUNCTION(name)                                                          \
  MCCS_EXPORTED cudaError_t name(const char* symbol, void** function, unsigned long long flags,  \
                                 cudaDriverEntryPointQueryResult* status) {                      \
    static constinit ReplacedFunction query{#name};                                              \
    return QueryAddress(query, __builtin_return_address(0), cudaErrorSharedObjectSymbolNotFound, \
                        symbol, function, flags, status);                                        \
  }

#define MCCS_ENTRY_POINT_BY_VERSION_FUNCTION(name)                                               \
  MCCS_EXPORTED cudaError_t name(const char* symbol, void** function, unsigned int version,      \
                                 unsigned long long flags,                                       \
                                 cudaDriverEntryPointQueryResult* status) {                      \
    static constinit ReplacedFunction query{#name};                                              \
    return QueryAddress(query, __builtin_return_address(0), cudaErrorSharedObjectSymbolNotFound, \
                        symbol, function, version, flags, status);                               \
  }

MCCS_ENTRY_POINT_FUNCTION(cudaGetDriverEntryPoint)
MCCS_ENTRY_POINT_FUNCTION(cudaGetDriverEntryPoint_ptsz)
MCCS_ENTRY_POINT_BY_VERSION_FUNCTION(cudaGetDriverEntryPointByVersion)
MCCS_ENTRY_POINT_BY_VERSION_FUNCTION(cudaGetDriverEntryPointByVersion_ptsz)
