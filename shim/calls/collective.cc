#include "shim/calls/collective.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/config/diagnostics.h"
#include "shim/daemon/error_message.h"
#include "shim/process/group.h"
#include "shim/process/process.h"
#include "shim/submit/user_operators.h"

namespace mccs::shim {
namespace {

// NCCL orders max before min; the wire has its own order.
ReduceOp WireOp(int op) {
  switch (op) {
    case ncclProd:
      return ReduceOp::kProd;
    case ncclMin:
      return ReduceOp::kMin;
    case ncclMax:
      return ReduceOp::kMax;
    case ncclAvg:
      return ReduceOp::kAvg;
    default:
      return ReduceOp::kSum;
  }
}

absl::Status CheckScalars(const CollectiveCall& call, const Communicator& comm) {
  if (call.payload.type < 0 || call.payload.type >= kDataTypes)
    return ArgumentError(call.function, "unknown datatype ", call.payload.type);
  if (HasRoot(call.kind) && (call.extras.root < 0 || call.extras.root >= comm.ranks())) {
    return ArgumentError(call.function, "root ", call.extras.root,
                         " is not a rank of the communicator; number of ranks: ", comm.ranks());
  }
  if (HasPeer(call.kind) && (call.extras.peer < 0 || call.extras.peer >= comm.ranks())) {
    return ArgumentError(call.function, "peer ", call.extras.peer,
                         " is not a rank of the communicator; number of ranks: ", comm.ranks());
  }
  return absl::OkStatus();
}

int RootOrPeer(const CollectiveCall& call) {
  if (HasPeer(call.kind)) return call.extras.peer;
  return HasRoot(call.kind) ? call.extras.root : 0;
}

// The user-defined operator of the call, if it uses one.
absl::StatusOr<std::optional<PreMulSum>> CheckOperator(const CollectiveCall& call,
                                                       Communicator& comm) {
  const int op = call.extras.op;
  if (!Reduces(call.kind) || (op >= 0 && op < ncclNumOps)) return std::nullopt;
  std::optional<PreMulSum> made = comm.operators().Find(op);
  if (!made) {
    return ArgumentError(
        call.function, "unknown reduction operator ", op,
        "; an operator is valid for the communicator that it was created for, until "
        "ncclRedOpDestroy");
  }
  const auto type = static_cast<DataType>(call.payload.type);
  if (made->type != type) {
    return ArgumentError(call.function, "reduction operator ", op, " was created for datatype ",
                         View(Name(made->type)), ", but the call's datatype is ", View(Name(type)));
  }
  return made;
}

// Bytes that the call reads and writes on this rank; 0 if it does not read or write.
struct SideBytes {
  uint64_t send;
  uint64_t recv;
};

absl::StatusOr<SideBytes> MeasureSides(const CollectiveCall& call, const Communicator& comm) {
  const auto ranks = static_cast<uint64_t>(comm.ranks());
  const uint64_t size = SizeOf(static_cast<DataType>(call.payload.type));
  uint64_t block;
  uint64_t whole;
  if (__builtin_mul_overflow(uint64_t{call.payload.count}, size, &block) ||
      __builtin_mul_overflow(block, ranks, &whole)) {
    return ArgumentError(call.function, "count ", call.payload.count, " exceeds the address space");
  }
  const bool is_root = comm.rank() == call.extras.root;
  const CallElements sides = ElementsOf(call.kind, call.payload.count, ranks, is_root);
  return SideBytes{sides.input * size, sides.output * size};
}

// One side of a call: into `ref`, or into `staged` if the daemon cannot map it, or `stage`.
absl::Status ResolveSide(const BufferUse& use, RecentBuffers& buffers, bool stage,
                         wire::BufferRef& ref, StagedSides::Side& staged) {
  MCCS_ASSIGN_OR_RETURN(const BufferPlace place, buffers.Resolve(use));
  ref = place.ref;
  if (place.staged || stage) {
    staged.user = reinterpret_cast<CUdeviceptr>(use.address);
    staged.bytes = use.bytes;
  }
  return absl::OkStatus();
}

// Under the submit lock, which guards the communicator's recent buffers.
absl::Status ResolveBuffers(const CollectiveCall& call, const SideBytes& bytes, Communicator& comm,
                            wire::WorkRecord& record, StagedSides& staged) {
  RecentBuffers& buffers = comm.submission_state().buffers;
  const bool stage =
      HasPeer(call.kind) ? comm.StagesMessagesWith(call.extras.peer) : comm.stages_collectives();
  const bool one_buffer = call.payload.send == call.payload.recv && bytes.send == bytes.recv;
  if (bytes.send > 0) {
    MCCS_RETURN_IF_ERROR(ResolveSide({.function = call.function,
                                      .argument = "sendbuff",
                                      .address = call.payload.send,
                                      .bytes = bytes.send},
                                     buffers, stage, record.send, staged.send));
  }
  if (one_buffer) {
    record.recv = record.send;
    staged.recv = staged.send;
    staged.in_place = true;
    staged.recv_prefilled = call.kind == OpKind::kBroadcast;  // the root's
    return absl::OkStatus();
  }
  if (bytes.recv > 0) {
    MCCS_RETURN_IF_ERROR(ResolveSide({.function = call.function,
                                      .argument = "recvbuff",
                                      .address = call.payload.recv,
                                      .bytes = bytes.recv},
                                     buffers, stage, record.recv, staged.recv));
  }
  return absl::OkStatus();
}

// The factor of a user-defined operator: its bits, or its place at the daemon.
absl::Status ResolveFactor(const CollectiveCall& call, const PreMulSum& made, Communicator& comm,
                           wire::WorkRecord& record, StagedSides& staged) {
  record.redop = ReduceOp::kPreMulSum;
  record.scalar = made.bits;
  if (made.device == nullptr) return absl::OkStatus();
  return ResolveSide({.function = call.function,
                      .argument = "the operator's scalar",
                      .address = made.device,
                      .bytes = SizeOf(made.type)},
                     comm.submission_state().buffers, comm.stages_collectives(),
                     record.scalar_buffer, staged.scalar);
}

// The line has NCCL's form.
void LogCall(const CollectiveCall& call) {
  const CollectiveCall::Payload& payload = call.payload;
  const auto hex = [](const void* pointer) {
    return absl::Hex(reinterpret_cast<uintptr_t>(pointer));
  };
  LogLine(Verbosity::kInfo,
          absl::StrCat(View(call.function), ": sendbuff 0x", hex(payload.send), " recvbuff 0x",
                       hex(payload.recv), " count ", payload.count, " datatype ", payload.type,
                       " op ", call.extras.op, " root ", call.extras.root, " comm 0x",
                       hex(call.comm), " stream 0x", hex(call.stream)),
          Subsystem::kCollective);
}

absl::Status AddToGroup(const CollectiveCall& call, Group& group) {
  MCCS_ASSIGN_OR_RETURN(CommRef comm, FindCommunicator(call.function, call.comm));
  MCCS_RETURN_IF_ERROR(CheckScalars(call, *comm));
  MCCS_ASSIGN_OR_RETURN(const CallOptions options, ReadCollConfig(call.function, call.config));
  MCCS_ASSIGN_OR_RETURN(const std::optional<PreMulSum> made, CheckOperator(call, *comm));
  MCCS_RETURN_IF_ERROR(comm->CheckUsable());
  if (call.payload.count == 0 && !HasPeer(call.kind)) return absl::OkStatus();
  MCCS_ASSIGN_OR_RETURN(const SideBytes bytes, MeasureSides(call, *comm));
  if (bytes.send > 0 && call.payload.send == nullptr)
    return ArgumentError(call.function, "sendbuff is NULL");
  if (bytes.recv > 0 && call.payload.recv == nullptr)
    return ArgumentError(call.function, "recvbuff is NULL");
  wire::WorkRecord record{};
  record.record = wire::RecordKind::kOperation;
  record.op = call.kind;
  record.type = static_cast<DataType>(call.payload.type);
  record.redop = Reduces(call.kind) ? WireOp(call.extras.op) : ReduceOp::kSum;
  record.root_or_peer = RootOrPeer(call);
  record.count = call.payload.count;
  record.deadline_us = options.deadline_us;
  record.priority = options.priority;
  record.criticality = options.criticality;
  record.signal = call.extras.signal;
  record.window = call.extras.window;
  record.window_offset = call.extras.window_offset;
  StagedSides staged;
  {
    std::lock_guard lock(comm->submit_mutex());
    ScopedContext context(comm->driver(), comm->context());
    MCCS_RETURN_IF_ERROR(ResolveBuffers(call, bytes, *comm, record, staged));
    if (made) MCCS_RETURN_IF_ERROR(ResolveFactor(call, *made, *comm, record, staged));
    comm->submission_state().unposted.Add();
  }
  return group.AddOperation(std::move(comm), call.stream, record, staged);
}

}  // namespace

ncclResult_t Post(const CollectiveCall& call) {
  if (IsLogged(Verbosity::kInfo, Subsystem::kCollective)) [[unlikely]]
    LogCall(call);
  ImplicitGroup group;
  return group.Finish(AddToGroup(call, *group.get()));
}

}  // namespace mccs::shim
