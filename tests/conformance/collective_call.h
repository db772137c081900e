// A collective call as data: which elements it reads and writes, its layout in place, how to post
// it.
#ifndef TESTS_CONFORMANCE_COLLECTIVE_CALL_H_
#define TESTS_CONFORMANCE_COLLECTIVE_CALL_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collective_perf/element_type.h"
#include "nccl.h"

namespace conformance {

using collective_perf::ElementType;
using collective_perf::ElementTypes;
using collective_perf::NumberKind;

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kGather,
  kScatter,
};

struct Collective {
  Kind kind;
  std::string_view name;
  std::string_view function;
  bool reduces;
  bool rooted;
  bool has_in_place;
};

std::span<const Collective> Collectives();
const Collective& Describe(Kind kind);

struct Call {
  Kind kind = Kind::kAllReduce;
  const ElementType* type = nullptr;
  ncclRedOp_t op = ncclSum;  // if the collective reduces
  size_t count = 0;          // in the function's unit
  int root = 0;              // if the collective has a root

  bool reduces() const { return Describe(kind).reduces; }
};

// Elements that `rank` of `n` reads or writes. 0: the library must not use the pointer.
size_t SendElements(const Call& call, int rank, int n);
size_t ReceiveElements(const Call& call, int rank, int n);

// The layout in place: one buffer of `elements`, and the offsets of input and output.
struct InPlaceLayout {
  size_t elements;
  size_t send_at;
  size_t receive_at;
};
InPlaceLayout LayInPlace(const Call& call, int rank, int n);

ncclResult_t Post(const Call& call, const void* send, void* receive, ncclComm_t comm,
                  cudaStream_t stream);

std::string_view OperatorName(ncclRedOp_t op);
// "ncclAllReduce of 7 int8, sum"
std::string ToText(const Call& call);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_COLLECTIVE_CALL_H_
