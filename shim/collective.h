// From the arguments of a collective, send, receive or one-sided call to its work record.
#ifndef MCCS_SHIM_COLLECTIVE_H_
#define MCCS_SHIM_COLLECTIVE_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/operation.h"
#include "shim/coll_config.h"

namespace mccs::shim {

// One call as the program made it. Type and operator are plain numbers: a program may pass any, and
// an enumeration must not hold them.
struct CollectiveCall {
  struct Payload {
    const void* send;
    void* recv;
    size_t count;  // as the NCCL call counts it
    int type;      // ncclDataType_t
  };
  // What only some operations have; the others leave it at its default.
  struct Extras {
    int op = ncclSum;  // ncclRedOp_t
    int root = 0;
    int peer = 0;
    // One-sided: the peer's window, bytes from its beginning, SignalNumber.
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

// Checks every argument, names the buffers as the daemon knows them and adds the operation to this
// thread's group; outside of one, hands it over at once. A collective with a count of zero is
// checked and done; a point-to-point call without elements has its other end, and is posted. Never
// waits for the work itself.
ncclResult_t Post(const CollectiveCall& call);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_COLLECTIVE_H_
