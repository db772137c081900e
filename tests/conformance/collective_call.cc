#include "conformance/collective_call.h"

#include <algorithm>
#include <array>

namespace conformance {
namespace {

constexpr Collective kCollectives[] = {
    {Kind::kAllReduce, "all_reduce", "ncclAllReduce", true, false, true},
    {Kind::kReduce, "reduce", "ncclReduce", true, true, true},
    {Kind::kBroadcast, "broadcast", "ncclBroadcast", false, true, true},
    {Kind::kAllGather, "all_gather", "ncclAllGather", false, false, true},
    {Kind::kReduceScatter, "reduce_scatter", "ncclReduceScatter", true, false, true},
    {Kind::kAlltoAll, "all_to_all", "ncclAlltoAll", false, false, false},
    {Kind::kGather, "gather", "ncclGather", false, true, true},
    {Kind::kScatter, "scatter", "ncclScatter", false, true, true},
};

}  // namespace

std::span<const Collective> Collectives() { return kCollectives; }

const Collective& Describe(Kind kind) { return kCollectives[static_cast<size_t>(kind)]; }

size_t SendElements(const Call& call, int rank, int n) {
  switch (call.kind) {
    case Kind::kReduceScatter:
    case Kind::kAlltoAll:
      return call.count * n;
    case Kind::kScatter:
      return rank == call.root ? call.count * n : 0;
    case Kind::kBroadcast:
      return rank == call.root ? call.count : 0;
    default:
      return call.count;
  }
}

size_t ReceiveElements(const Call& call, int rank, int n) {
  switch (call.kind) {
    case Kind::kAllGather:
    case Kind::kAlltoAll:
      return call.count * n;
    case Kind::kGather:
      return rank == call.root ? call.count * n : 0;
    case Kind::kReduce:
      return rank == call.root ? call.count : 0;
    default:
      return call.count;
  }
}

InPlaceLayout LayInPlace(const Call& call, int rank, int n) {
  const size_t elements = std::max(SendElements(call, rank, n), ReceiveElements(call, rank, n));
  const size_t own = call.count * rank;
  switch (call.kind) {
    case Kind::kAllGather:
      return {elements, own, 0};
    case Kind::kGather:
      return {elements, rank == call.root ? own : 0, 0};
    case Kind::kReduceScatter:
      return {elements, 0, own};
    case Kind::kScatter:
      return {elements, 0, rank == call.root ? own : 0};
    default:
      return {elements, 0, 0};
  }
}

ncclResult_t Post(const Call& call, const void* send, void* receive, ncclComm_t comm,
                  cudaStream_t stream) {
  const ncclDataType_t type = call.type->nccl;
  switch (call.kind) {
    case Kind::kAllReduce:
      return ncclAllReduce(send, receive, call.count, type, call.op, comm, stream);
    case Kind::kReduce:
      return ncclReduce(send, receive, call.count, type, call.op, call.root, comm, stream);
    case Kind::kBroadcast:
      return ncclBroadcast(send, receive, call.count, type, call.root, comm, stream);
    case Kind::kAllGather:
      return ncclAllGather(send, receive, call.count, type, comm, stream);
    case Kind::kReduceScatter:
      return ncclReduceScatter(send, receive, call.count, type, call.op, comm, stream);
    case Kind::kAlltoAll:
      return ncclAlltoAll(send, receive, call.count, type, comm, stream);
    case Kind::kGather:
      return ncclGather(send, receive, call.count, type, call.root, comm, stream);
    case Kind::kScatter:
      return ncclScatter(send, receive, call.count, type, call.root, comm, stream);
  }
  return ncclInternalError;
}

std::string_view OperatorName(ncclRedOp_t op) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "prod", "max", "min", "avg"};
  return op < kNames.size() ? kNames[op] : "user operator";
}

std::string ToText(const Call& call) {
  const Collective& collective = Describe(call.kind);
  std::string text = std::string(collective.function) + " of " + std::to_string(call.count) + " " +
                     std::string(call.type->name);
  if (collective.reduces) text += ", " + std::string(OperatorName(call.op));
  if (collective.rooted) text += ", root " + std::to_string(call.root);
  return text;
}

}  // namespace conformance
