// The exported collectives, one row each.
#include <nccl.h>

#include "shim/api/exported.h"
#include "shim/calls/collective.h"

using mccs::OpKind;

// Defines ncclNAME with these parameters, followed by the communicator and the stream. The rest
// maps them to the call's payload {send, recv, count, type} and its extras {.op, .root, .peer}, if
// any.
#define MCCS_CALL(name, kind, parameters, ...)                                \
  MCCS_EXPORT(ncclResult_t, nccl##name)                                       \
  (MCCS_LIST parameters, ncclComm_t comm, cudaStream_t stream) {              \
    return mccs::shim::Post({"nccl" #name, kind, comm, stream, __VA_ARGS__}); \
  }

// Also defines ncclNAMEConfig, with an additional configuration of the call.
#define MCCS_COLLECTIVE(name, kind, parameters, ...)                                         \
  MCCS_CALL(name, kind, parameters, __VA_ARGS__);                                            \
  MCCS_EXPORT(ncclResult_t, nccl##name##Config)                                              \
  (MCCS_LIST parameters, ncclComm_t comm, cudaStream_t stream,                               \
   const mccs::shim::CollConfig* config) {                                                   \
    mccs::shim::CollectiveCall call{"nccl" #name "Config", kind, comm, stream, __VA_ARGS__}; \
    call.config = config;                                                                    \
    return mccs::shim::Post(call);                                                           \
  }
#define MCCS_LIST(...) __VA_ARGS__

MCCS_COLLECTIVE(AllReduce, OpKind::kAllReduce,
                (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op),
                {send, recv, count, type}, {.op = op});

MCCS_COLLECTIVE(ReduceScatter, OpKind::kReduceScatter,
                (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op),
                {send, recv, count, type}, {.op = op});

MCCS_COLLECTIVE(AllGather, OpKind::kAllGather,
                (const void* send, void* recv, size_t count, ncclDataType_t type),
                {send, recv, count, type});

MCCS_COLLECTIVE(Broadcast, OpKind::kBroadcast,
                (const void* send, void* recv, size_t count, ncclDataType_t type, int root),
                {send, recv, count, type}, {.root = root});

MCCS_COLLECTIVE(Reduce, OpKind::kReduce,
                (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                 int root),
                {send, recv, count, type}, {.op = op, .root = root});

MCCS_COLLECTIVE(AlltoAll, OpKind::kAllToAll,
                (const void* send, void* recv, size_t count, ncclDataType_t type),
                {send, recv, count, type});

MCCS_COLLECTIVE(Gather, OpKind::kGather,
                (const void* send, void* recv, size_t count, ncclDataType_t type, int root),
                {send, recv, count, type}, {.root = root});

MCCS_COLLECTIVE(Scatter, OpKind::kScatter,
                (const void* send, void* recv, size_t count, ncclDataType_t type, int root),
                {send, recv, count, type}, {.root = root});

MCCS_CALL(Bcast, OpKind::kBroadcast, (void* buffer, size_t count, ncclDataType_t type, int root),
          {buffer, buffer, count, type}, {.root = root});

MCCS_CALL(Send, OpKind::kSend, (const void* buffer, size_t count, ncclDataType_t type, int peer),
          {buffer, nullptr, count, type}, {.peer = peer});

MCCS_CALL(Recv, OpKind::kRecv, (void* buffer, size_t count, ncclDataType_t type, int peer),
          {nullptr, buffer, count, type}, {.peer = peer});
