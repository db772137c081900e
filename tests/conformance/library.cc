#include "conformance/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "nccl.h"

namespace conformance {

std::string LibraryPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&ncclGetVersion), &info) == 0 || info.dli_fname == nullptr) {
    return "an unknown file";
  }
  return info.dli_fname;
}

std::string LibraryVersion() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) return "of unknown version";
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

bool LibraryIsPreloaded() {
  const char* preload = std::getenv("LD_PRELOAD");
  return preload != nullptr && std::string(preload).find(LibraryPath()) != std::string::npos;
}

void* FindFunction(const char* name) { return dlsym(RTLD_DEFAULT, name); }

}  // namespace conformance
