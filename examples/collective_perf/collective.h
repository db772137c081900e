// Properties of each collective, as data.
#ifndef EXAMPLES_COLLECTIVE_PERF_COLLECTIVE_H_
#define EXAMPLES_COLLECTIVE_PERF_COLLECTIVE_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "cuda_runtime.h"
#include "nccl.h"

namespace collective_perf {

struct CallArguments {
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;
  ncclComm_t comm;
  cudaStream_t stream;
};

struct Collective {
  std::string_view name;
  bool reduces = false;
  bool only_root_sends = false;
  bool only_root_receives = false;
  // Buffers of one rank in multiples of the call's count: 1, or one per rank.
  bool send_per_rank = false;
  bool receive_per_rank = false;
  // A rank receives what the previous rank sends. It has no in-place form.
  bool from_previous_rank = false;
  ncclResult_t (*call)(const CallArguments& arguments);
  // Bus bandwidth divided by algorithm bandwidth with n ranks, as in nccl-tests.
  double (*bus_factor)(int ranks);

  bool rooted() const { return only_root_sends || only_root_receives; }
  // Block d of each rank's input goes to rank d. NCCL has no in-place form of it.
  bool exchanges() const { return send_per_rank && receive_per_rank; }
  bool has_in_place_form() const { return !exchanges() && !from_previous_rank; }
  // The call's count when the larger buffer has at most `elements`.
  size_t Count(size_t elements, int ranks) const {
    return send_per_rank || receive_per_rank ? elements / ranks : elements;
  }
  size_t SendElements(size_t count, int ranks) const {
    return send_per_rank ? count * ranks : count;
  }
  size_t ReceiveElements(size_t count, int ranks) const {
    return receive_per_rank ? count * ranks : count;
  }
};

std::span<const Collective> Collectives();

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_COLLECTIVE_H_
