// The program's frees, as reported by libmccs-frees.so (frees/) before they happen.
#ifndef MCCS_SHIM_SEEN_FREES_H_
#define MCCS_SHIM_SEEN_FREES_H_

namespace mccs::shim {

// From now on the daemon unmaps memory before it is freed. If the library is not preloaded, or is
// loaded after the libraries that it must precede, only logs a line under INFO or WARN. THREAD:
// any; only the first call has an effect.
void ListenToFrees();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SEEN_FREES_H_
