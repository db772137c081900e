// Functions that the headers of NCCL 2.29 to 2.32 declare and the header of our build does not, by
// their own names.
#ifndef MCCS_TESTS_FUZZ_NEWER_NCCL_H_
#define MCCS_TESTS_FUZZ_NEWER_NCCL_H_

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstdint>

#include "shim/config/coll_config.h"

namespace mccs {

using shim::CollConfig;

// ncclWaitSignalDesc_t
struct WaitSignalDesc {
  int count;
  int peer;
  int index;
  int context;
};

// Looks up a function in the library that the program runs with; null if it has none.
template <typename... Arguments>
using NcclFunction = ncclResult_t (*)(Arguments...);
template <typename Function>
Function FindNewer(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

#define NEWER(name, ...) inline const auto name = FindNewer<NcclFunction<__VA_ARGS__>>(#name)

NEWER(ncclAllReduceConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
      cudaStream_t, const CollConfig*);
NEWER(ncclReduceConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
      cudaStream_t, const CollConfig*);
NEWER(ncclBroadcastConfig, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
      cudaStream_t, const CollConfig*);
NEWER(ncclAllGatherConfig, const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
      const CollConfig*);
NEWER(ncclReduceScatterConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
      cudaStream_t, const CollConfig*);
NEWER(ncclAlltoAllConfig, const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
      const CollConfig*);
NEWER(ncclGatherConfig, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
      const CollConfig*);
NEWER(ncclScatterConfig, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
      const CollConfig*);
NEWER(ncclPutSignal, const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int,
      unsigned, ncclComm_t, cudaStream_t);
NEWER(ncclSignal, int, int, int, unsigned, ncclComm_t, cudaStream_t);
NEWER(ncclWaitSignal, int, WaitSignalDesc*, ncclComm_t, cudaStream_t);
NEWER(ncclCommGetUniqueId, ncclComm_t, ncclUniqueId*);
NEWER(ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
NEWER(ncclCommRevoke, ncclComm_t, int);
NEWER(ncclCommSuspend, ncclComm_t, int);
NEWER(ncclCommResume, ncclComm_t);
NEWER(ncclCommMemStats, ncclComm_t, int, uint64_t*);
NEWER(ncclCommQueryProperties, ncclComm_t, void*);
NEWER(ncclWinGetUserPtr, ncclComm_t, ncclWindow_t, void**);
NEWER(ncclParamBind, void**, const char*);
NEWER(ncclParamGet, void*, void*, int, int*);
NEWER(ncclParamGetStr, void*, const char**);
NEWER(ncclParamGetParameter, const char*, const char**, int*);
NEWER(ncclParamGetAllParameterKeys, const char***, int*);

#undef NEWER

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_NEWER_NCCL_H_
