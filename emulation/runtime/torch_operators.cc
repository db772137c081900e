// PyTorch's operators on the host.

#include <dlfcn.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "emulation/include/mccs_emulation_torch.h"
#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

// In the directory of this library, independent of other libraries of that name.
std::string ExtensionPath() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&StartTorchOperators), &info) == 0) return "";
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + MCCS_EMULATION_TORCH_LIBRARY;
}

bool Start() {
  void* const extension = dlopen(ExtensionPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (extension == nullptr) {
    fprintf(
        stderr,
        "emulated CUDA: this process runs PyTorch, whose operators need the emulation's "
        "extension, built for the PyTorch of scripts/setup_pytorch: %s; run scripts/setup_pytorch, "
        "then scripts/build\n",
        dlerror());
    return false;
  }
  const auto start = reinterpret_cast<decltype(&mccsEmulationStartTorch)>(
      dlsym(extension, MCCS_EMULATION_TORCH_START));
  return start != nullptr && start() == 0;
}

}  // namespace

bool StartTorchOperators() {
  static std::once_flag once;
  static bool started = true;
  void* const torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return true;
  dlclose(torch);
  std::call_once(once, [] { started = Start(); });
  return started;
}

}  // namespace mccs::emulation
