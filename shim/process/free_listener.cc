#include "shim/process/free_listener.h"

#include <dlfcn.h>

#include <atomic>

#include "free_hooks/listener.h"
#include "shim/config/diagnostics.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

// Ignores nested frees: the runtime's cudaFree calls the driver's.
void OnFree(uint64_t address, uint64_t bytes) {
  static thread_local bool busy = false;
  if (busy) return;
  busy = true;
  Process::ReleaseRange({address, bytes});
  busy = false;
}

// Whether the name resolves to the file that contains the address.
bool ResolvesTo(const char* name, void* address) {
  Dl_info named;
  Dl_info wanted;
  void* found = dlsym(RTLD_DEFAULT, name);
  return found == nullptr || (dladdr(found, &named) != 0 && dladdr(address, &wanted) != 0 &&
                              named.dli_fbase == wanted.dli_fbase);
}

}  // namespace

void RegisterFreeListener() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  void* const entry = dlsym(RTLD_DEFAULT, free_hooks::kListen);
  if (entry == nullptr) {
    LogLine(Verbosity::kInfo,
            "libmccs-free-hooks.so is not preloaded: the daemon unmaps freed memory only when the "
            "free is "
            "detected, or when its lease ends (MCCS_EXPORT_LEASE)");
    return;
  }
  reinterpret_cast<free_hooks::Listen>(entry)(&OnFree);
  if (!ResolvesTo("cudaFree", entry) || !ResolvesTo("cuMemFree_v2", entry)) {
    LogLine(Verbosity::kWarn,
            "libmccs-free-hooks.so is loaded after another library with cudaFree, so it sees no "
            "frees: put "
            "it first in LD_PRELOAD");
  }
}

}  // namespace mccs::shim
