// The interface of libmccs-free-hooks.so for a library that needs to see frees: one function,
// looked up by name among the symbols of the process.
#ifndef MCCS_FREE_HOOKS_LISTENER_H_
#define MCCS_FREE_HOOKS_LISTENER_H_

#include <cstdint>

namespace mccs::free_hooks {

// Called in the program's thread before memory in the range is freed or unmapped, possibly twice
// for one free. A free identifies its allocation by one address: then `bytes` is 1. The listener
// must not free CUDA memory itself, unless it ignores its own calls.
using Listener = void (*)(uint64_t address, uint64_t bytes);

// Sets the listener and replaces any former one; null removes it. Does not wait for running calls,
// so a listener must stay loaded. THREAD: any.
using Listen = void (*)(Listener listener);
inline constexpr char kListen[] = "mccs_free_hooks_listen";

}  // namespace mccs::free_hooks

#endif  // MCCS_FREE_HOOKS_LISTENER_H_
