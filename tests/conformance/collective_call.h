// A collective call as data: what it reads and writes, where that lies in place, how it is posted.
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
  ncclRedOp_t op = ncclSum;  // where it reduces
  size_t count = 0;          // as the function takes it
  int root = 0;              // where it is rooted

  bool reduces() const { return Describe(kind).reduces; }
};

// Elements that rank reads and writes, of a communicator of n. 0: the pointer is not looked at.
size_t SendElements(const Call& call, int rank, int n);
size_t ReceiveElements(const Call& call, int rank, int n);

// In place both lie in one buffer, of this many elements, and begin at these.
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
