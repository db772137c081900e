// What a default entry point does.

#include <atomic>
#include <cstdio>

// Says once that `name` is not implemented. `named_before` belongs to that name.
// THREAD: any.
extern "C" int MccsEmulationNotImplemented(const char* name, int* named_before, int code) {
  if (std::atomic_ref(*named_before).exchange(1) == 0) {
    fprintf(stderr, "emulated CUDA: %s is not implemented\n", name);
  }
  return code;
}
