// Kinds, element types and operators of collectives, shared by shim, daemon and plans.
// The values are part of the wire format between shim and daemon: append, never renumber.
#ifndef MCCS_PROTO_OPERATION_H_
#define MCCS_PROTO_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/portable.h"

namespace mccs {

enum class OpKind : uint8_t {
  kNone = 0,
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kBroadcast = 4,
  kReduce = 5,
  kAllToAll = 6,
  kGather = 7,
  kScatter = 8,
  kSend = 9,
  kRecv = 10,
  kPut = 11,         // ncclPutSignal: into an RMA window of the peer, followed by a signal
  kSignal = 12,      // ncclSignal
  kWaitSignal = 13,  // one descriptor of ncclWaitSignal
};
inline constexpr int kOpKinds = 14;

// Same order as ncclDataType_t.
enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;

// The operation on two elements. An average is a sum with scaled inputs (floats) or with a final
// division (integers); a scaled sum (PreMulSum) is a sum with scaled inputs.
enum class ReduceOp : uint8_t { kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAvg = 4, kPreMulSum = 5 };
inline constexpr int kReduceOps = 6;

// Whether the call has an operator.
constexpr bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce;
}

// Whether the call has a root rank.
constexpr bool HasRoot(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather ||
         kind == OpKind::kScatter;
}

// Two-sided point-to-point calls, which name a peer rank.
constexpr bool IsMessage(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

// One-sided point-to-point calls: they name a peer rank, which makes no matching call.
constexpr bool IsOneSided(OpKind kind) {
  return kind == OpKind::kPut || kind == OpKind::kSignal || kind == OpKind::kWaitSignal;
}

// Whether the call has a peer rank.
constexpr bool HasPeer(OpKind kind) { return IsMessage(kind) || IsOneSided(kind); }

// Signals between two ranks are identified by NCCL's index and context, as one number.
inline constexpr int kSignalIndices = 256;
inline constexpr int kSignalContexts = 16;
inline constexpr uint32_t kSignals = kSignalIndices * kSignalContexts;
// REQUIRES: 0 ≤ index < kSignalIndices, 0 ≤ context < kSignalContexts.
constexpr uint32_t SignalNumber(int index, int context) {
  return static_cast<uint32_t>(context * kSignalIndices + index);
}

// Elements that a call reads and writes on one rank; 0: the pointer of that side is ignored.
struct CallElements {
  uint64_t input = 0;
  uint64_t output = 0;
};

// `count`: the call's argument. REQUIRES: count × ranks fits in 64 bits. Both sides are 0 for other
// kinds.
constexpr CallElements ElementsOf(OpKind kind, uint64_t count, uint64_t ranks, bool is_root) {
  switch (kind) {
    case OpKind::kAllReduce:
      return {count, count};
    case OpKind::kAllGather:
      return {count, count * ranks};
    case OpKind::kReduceScatter:
      return {count * ranks, count};
    case OpKind::kBroadcast:
      return {is_root ? count : 0, count};
    case OpKind::kReduce:
      return {count, is_root ? count : 0};
    case OpKind::kAllToAll:
      return {count * ranks, count * ranks};
    case OpKind::kGather:
      return {count, is_root ? count * ranks : 0};
    case OpKind::kScatter:
      return {is_root ? count * ranks : 0, count};
    case OpKind::kSend:
    case OpKind::kPut:
      return {count, 0};
    case OpKind::kRecv:
      return {0, count};
    default:
      return {};
  }
}

MCCS_HOST_DEVICE constexpr size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloat(DataType type) {
  return type >= DataType::kFloat16 && type <= DataType::kFloat8e5m2;
}

// Limit of a call over all ranks. Beyond it, count × size × ranks could overflow; no machine has
// that much memory.
inline constexpr uint64_t kMaxCallBytes = uint64_t{1} << 56;

// The names in logs, tools and benchmarks: "all_reduce", "bfloat16", "sum".
std::string_view Name(OpKind kind);
std::string_view Name(DataType type);
std::string_view Name(ReduceOp op);

}  // namespace mccs

#endif  // MCCS_PROTO_OPERATION_H_
