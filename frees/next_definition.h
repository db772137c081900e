// The function that a call would have reached if this library were not in front of it.
#ifndef MCCS_FREES_NEXT_DEFINITION_H_
#define MCCS_FREES_NEXT_DEFINITION_H_

#include <atomic>

namespace mccs::frees {

// One function that this library stands in front of. THREAD: any. Needs no constructor: calls come
// before this library's constructors run, and after its destructors.
struct Replaced {
  const char* name;
  std::atomic<void*> real = nullptr;  // once it is known; every thread finds the same
};

// Looked for behind this library in the program's search order, then among the libraries that the
// caller was linked with (a library of CUDA that was opened privately). Null where there is none.
void* NextDefinition(Replaced& function, const void* caller);

}  // namespace mccs::frees

#endif  // MCCS_FREES_NEXT_DEFINITION_H_
