// Ends the program with status 1 and a line naming the call when a CUDA or NCCL call fails.
#ifndef EXAMPLES_CHECK_CALLS_H_
#define EXAMPLES_CHECK_CALLS_H_

#include <cstdio>
#include <cstdlib>

#include "cuda_runtime.h"
#include "nccl.h"

#define CUDA_OK(call)                                                    \
  do {                                                                   \
    cudaError_t cuda_ok_error = (call);                                  \
    if (cuda_ok_error != cudaSuccess) {                                  \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(cuda_ok_error));                   \
      std::exit(1);                                                      \
    }                                                                    \
  } while (false)

#define NCCL_OK(call)                                                             \
  do {                                                                            \
    ncclResult_t nccl_ok_error = (call);                                          \
    if (nccl_ok_error != ncclSuccess) {                                           \
      std::fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,      \
                   ncclGetErrorString(nccl_ok_error), ncclGetLastError(nullptr)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (false)

// Reports an operation that failed after its call had returned.
#define NCCL_COMM_OK(comm)                                                             \
  do {                                                                                 \
    ncclResult_t nccl_async_error = ncclSuccess;                                       \
    NCCL_OK(ncclCommGetAsyncError(comm, &nccl_async_error));                           \
    if (nccl_async_error != ncclSuccess) {                                             \
      std::fprintf(stderr, "%s:%d: communicator failed: %s: %s\n", __FILE__, __LINE__, \
                   ncclGetErrorString(nccl_async_error), ncclGetLastError(comm));      \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (false)

#endif  // EXAMPLES_CHECK_CALLS_H_
