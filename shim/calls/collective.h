// From the arguments of a collective, send, receive or one-sided call to its work record.
#ifndef MCCS_SHIM_CALLS_COLLECTIVE_H_
#define MCCS_SHIM_CALLS_COLLECTIVE_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/operation.h"
#include "shim/config/coll_config.h"

namespace mccs::shim {

// One call with the program's arguments. Type and operator are plain numbers: a program may pass
// any value, and an enumeration must not hold those.
struct CollectiveCall {
  struct Payload {
    const void* send;
    void* recv;
    size_t count;  // as the NCCL call counts it
    int type;      // ncclDataType_t
  };
  // Arguments of some operations only; the others leave the defaults.
  struct Extras {
    int op = ncclSum;  // ncclRedOp_t
    int root = 0;
    int peer = 0;
    // One-sided: the peer's window, offset in bytes, SignalNumber.
    uint64_t window = 0;
    uint64_t window_offset = 0;
    uint32_t signal = 0;
  };

  std::string_view function;  // "ncclAllReduce"
  OpKind kind;
  ncclComm_t comm;
  cudaStream_t stream;
  Payload payload;
  Extras extras = {};
  const CollConfig* config = nullptr;  // of a …Config variant
};

// Checks all arguments, resolves the buffers and adds the operation to this thread's group; outside
// a group, submits it at once. A collective with count 0 is only checked; a point-to-point call
// with count 0 has a peer, so it is posted. Does not wait for the work.
ncclResult_t Post(const CollectiveCall& call);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_COLLECTIVE_H_
