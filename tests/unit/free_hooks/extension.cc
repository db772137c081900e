// A library that uses CUDA's runtime, for private_runtime_test.
#include <cuda_runtime_api.h>

// Returns 0 if the memory was allocated and freed.
extern "C" int allocate_and_free() {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  void* memory = nullptr;
  const bool good = cudaMemGetInfo(&before, &total) == cudaSuccess &&
                    cudaMalloc(&memory, 1 << 20) == cudaSuccess &&
                    cudaFree(memory) == cudaSuccess &&
                    cudaMemGetInfo(&after, &total) == cudaSuccess;
  return good && before == after ? 0 : 1;
}
