// The function that a call would have reached without this library.
#ifndef MCCS_FREE_HOOKS_NEXT_DEFINITION_H_
#define MCCS_FREE_HOOKS_NEXT_DEFINITION_H_

#include <atomic>

namespace mccs::free_hooks {

// One function that this library replaces. THREAD: any. Needs no constructor, because calls arrive
// before this library's constructors run, and after its destructors.
struct ReplacedFunction {
  const char* name;
  std::atomic<void*> real = nullptr;  // once resolved; every thread resolves the same
};

// Searches after this library in the program's search order, then among the libraries that the
// caller was linked with (a privately opened CUDA library). Null if there is none.
void* NextDefinition(ReplacedFunction& function, const void* caller);

}  // namespace mccs::free_hooks

#endif  // MCCS_FREE_HOOKS_NEXT_DEFINITION_H_
