// The function behind each default entry point.

#include <atomic>
#include <cstdio>

// Prints once per name that `name` is not implemented. `named_before` belongs to that name.
// THREAD: any.
extern "C" int MccsEmulationNotImplemented(const char* name, int* named_before, int code) {
  if (std::atomic_ref(*named_before).exchange(1) == 0) {
    fprintf(stderr, "emulated CUDA: %s is not implemented\n", name);
  }
  return code;
}
