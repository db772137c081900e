// What libmccs-frees.so offers to a library that wants to know of frees: one function, found by its
// name among the symbols of the process.
#ifndef MCCS_FREES_LISTENER_H_
#define MCCS_FREES_LISTENER_H_

#include <cstdint>

namespace mccs::frees {

// Called in the program's thread before memory in the range is freed or unmapped, perhaps twice for
// one free. A free names its allocation by one address: then `bytes` is 1. It must not free memory
// of CUDA's itself, unless it knows its own calls.
using Listener = void (*)(uint64_t address, uint64_t bytes);

// Takes the listener that is told from now on, in place of any before; null ends it. A call under
// way is not waited for, so a listener stays loaded. THREAD: any.
using Listen = void (*)(Listener listener);
inline constexpr char kListen[] = "mccs_frees_listen";

}  // namespace mccs::frees

#endif  // MCCS_FREES_LISTENER_H_
