// Frees of the program that libmccs-frees.so (frees/) tells of before they happen.
#ifndef MCCS_SHIM_SEEN_FREES_H_
#define MCCS_SHIM_SEEN_FREES_H_

namespace mccs::shim {

// From now on the daemon lets go of memory before it is freed. Where the library was not preloaded,
// or behind what it has to come before, nothing happens but a line under INFO or WARN. THREAD: any;
// does it once.
void ListenToFrees();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SEEN_FREES_H_
