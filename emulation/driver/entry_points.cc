// Finding the driver's functions by name, and the names of its errors.

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "emulation/core/error_names.h"
#include "emulation/driver/entry.h"

using mccs::emulation::ErrorName;

namespace {

// Functions whose variants differ in their parameters, so that a caller compiled for an older CUDA
// needs the older one. For all others the newest serves everybody.
struct Variant {
  const char* base;
  int since_version;
  const char* symbol;
};
constexpr Variant kVariants[] = {
    // newest first
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 11030, "cuGetProcAddress"},
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"},
};
constexpr const char* kSuffixes[] = {"_v4", "_v3", "_v2", ""};

constexpr ErrorName kErrors[] = {
#include "cuda_errors.inc"
};

const ErrorName* NameOf(CUresult error) {
  return mccs::emulation::FindError(kErrors, static_cast<int>(error));
}

// This library, whatever else is called libcuda.so.1 in the process.
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

void* FindEntryPoint(const std::string& base, int version, bool per_thread) {
  bool has_variants = false;
  for (const Variant& variant : kVariants) {
    if (base != variant.base) continue;
    has_variants = true;
    if (version >= variant.since_version) return FindSymbol(variant.symbol, per_thread);
  }
  if (has_variants) return nullptr;
  for (const char* suffix : kSuffixes) {
    if (void* found = FindSymbol(base + suffix, per_thread)) return found;
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
  // With a place for the status the call itself has succeeded.
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

CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }

}  // extern "C"
