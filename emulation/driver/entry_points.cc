// Lookup of the driver's functions by name, and the names of its errors.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>

#include "emulation/core/error_names.h"
#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

// Functions whose variants differ in their parameters: a caller needs the variant of the CUDA
// version that it requests. For any other function the newest variant serves all callers.
struct Variants {
  const char* base;
  std::array<int, 4>
      since;  // CUDA version of `base`, base_v2, base_v3, base_v4; 0: no such variant
};
constexpr Variants kVariants[] = {
    {"cuCtxCreate", {2000, 3020, 11040, 12050}},
    {"cuCtxGetDevice", {2000, 13000}},
    {"cuCtxSynchronize", {2000, 13000}},
    {"cuGetProcAddress", {11030, 12000}},
    {"cuGraphAddDependencies", {10000, 12030}},
    {"cuGraphAddKernelNode", {10000, 12000}},
    {"cuGraphAddNode", {12020, 12030}},
    {"cuGraphExecKernelNodeSetParams", {10010, 12000}},
    {"cuGraphExecUpdate", {10020, 12000}},
    {"cuGraphGetEdges", {10000, 12030}},
    {"cuGraphInstantiate", {10000, 11000}},
    {"cuGraphKernelNodeGetParams", {10000, 12000}},
    {"cuGraphKernelNodeSetParams", {10000, 12000}},
    {"cuGraphNodeGetDependencies", {10000, 12030}},
    {"cuGraphNodeGetDependentNodes", {10000, 12030}},
    {"cuGraphRemoveDependencies", {10000, 12030}},
    {"cuMemAdvise", {8000, 12020}},
    {"cuMemPrefetchAsync", {8000, 12020}},
    {"cuMemcpy3DBatchAsync", {12080, 13000}},
    {"cuMemcpyBatchAsync", {12080, 13000}},
    {"cuStreamBeginCapture", {10000, 10010}},
    {"cuStreamGetCaptureInfo", {10010, 11030, 12030}},
    {"cuStreamGetCtx", {9020, 12050}},
    {"cuStreamUpdateCaptureDependencies", {11030, 12030}},
};
constexpr const char* kSuffixes[] = {"", "_v2", "_v3", "_v4"};  // oldest first

constexpr ErrorName kErrors[] = {
#include "cuda_errors.inc"
};

const ErrorName* NameOf(CUresult error) { return FindError(kErrors, static_cast<int>(error)); }

// This library, even if another library named libcuda.so.1 is in the process.
void* OwnHandle() {
  static void* const handle = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&NameOf), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

void* FindSymbol(const std::string& name, bool per_thread) {
  if (OwnHandle() == nullptr) return nullptr;
  if (per_thread) {
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (void* found = dlsym(OwnHandle(), (name + suffix).c_str())) return found;
    }
  }
  return dlsym(OwnHandle(), name.c_str());
}

const Variants* VariantsOf(const std::string& base) {
  const auto found = std::find_if(std::begin(kVariants), std::end(kVariants),
                                  [&](const Variants& variants) { return base == variants.base; });
  return found == std::end(kVariants) ? nullptr : found;
}

void* FindEntryPoint(const std::string& base, int version, bool per_thread) {
  const Variants* const variants = VariantsOf(base);
  for (size_t i = std::size(kSuffixes); i-- > 0;) {
    if (variants != nullptr && (variants->since[i] == 0 || version < variants->since[i])) continue;
    if (void* found = FindSymbol(base + kSuffixes[i], per_thread)) return found;
  }
  return nullptr;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *function = FindEntryPoint(symbol, version, per_thread);
  const bool found = *function != nullptr;
  if (status != nullptr) {
    *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  // With an output pointer for the status, the call itself succeeds.
  return found || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* entry = NameOf(error);
  *name = entry == nullptr ? nullptr : entry->name;
  return entry == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* entry = NameOf(error);
  *text = entry == nullptr ? nullptr : entry->text;
  return entry == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// The tables are private to NVIDIA and undocumented. The emulation's libcudart.so.13 does not use
// them.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    fprintf(
        stderr,
        "emulated CUDA: cuGetExportTable is not implemented: the program links the CUDA runtime "
        "statically; use a program that loads libcudart.so.13\n");
  });
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace mccs::emulation
