#include "shim/seen_frees.h"

#include <dlfcn.h>

#include <atomic>

#include "frees/listener.h"
#include "shim/diagnostics.h"
#include "shim/process.h"

namespace mccs::shim {
namespace {

// Ignores nested frees: the runtime's cudaFree calls the driver's.
void OnFree(uint64_t address, uint64_t bytes) {
  static thread_local bool busy = false;
  if (busy) return;
  busy = true;
  Process::LetGo({address, bytes});
  busy = false;
}

// Whether the name resolves to the file that contains the address.
bool LeadsTo(const char* name, void* address) {
  Dl_info named;
  Dl_info wanted;
  void* found = dlsym(RTLD_DEFAULT, name);
  return found == nullptr || (dladdr(found, &named) != 0 && dladdr(address, &wanted) != 0 &&
                              named.dli_fbase == wanted.dli_fbase);
}

}  // namespace

void ListenToFrees() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  void* const entry = dlsym(RTLD_DEFAULT, frees::kListen);
  if (entry == nullptr) {
    Say(Verbosity::kInfo,
        "libmccs-frees.so is not preloaded: the daemon unmaps freed memory only when the free is "
        "detected, or when its lease ends (MCCS_EXPORT_LEASE)");
    return;
  }
  reinterpret_cast<frees::Listen>(entry)(&OnFree);
  if (!LeadsTo("cudaFree", entry) || !LeadsTo("cuMemFree_v2", entry)) {
    Say(Verbosity::kWarn,
        "libmccs-frees.so is loaded after another library with cudaFree, so it sees no frees: put "
        "it first in LD_PRELOAD");
  }
}

}  // namespace mccs::shim
