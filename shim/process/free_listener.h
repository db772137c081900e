// The program's frees, as reported by libmccs-free-hooks.so (free_hooks/) before they happen.
#ifndef MCCS_SHIM_PROCESS_FREE_LISTENER_H_
#define MCCS_SHIM_PROCESS_FREE_LISTENER_H_

namespace mccs::shim {

// From now on the daemon unmaps memory before it is freed. If the library is not preloaded, or is
// loaded after the libraries that it must precede, only logs a line under INFO or WARN. THREAD:
// any; only the first call has an effect.
void RegisterFreeListener();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_PROCESS_FREE_LISTENER_H_
