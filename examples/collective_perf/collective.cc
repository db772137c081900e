#include "collective_perf/collective.h"

namespace collective_perf {
namespace {

ncclResult_t AllReduce(const CallArguments& a) {
  return ncclAllReduce(a.send, a.receive, a.count, a.type, a.reduction, a.comm, a.stream);
}

ncclResult_t AllGather(const CallArguments& a) {
  return ncclAllGather(a.send, a.receive, a.count, a.type, a.comm, a.stream);
}

ncclResult_t ReduceScatter(const CallArguments& a) {
  return ncclReduceScatter(a.send, a.receive, a.count, a.type, a.reduction, a.comm, a.stream);
}

ncclResult_t Broadcast(const CallArguments& a) {
  return ncclBroadcast(a.send, a.receive, a.count, a.type, a.root, a.comm, a.stream);
}

ncclResult_t Reduce(const CallArguments& a) {
  return ncclReduce(a.send, a.receive, a.count, a.type, a.reduction, a.root, a.comm, a.stream);
}

ncclResult_t AlltoAll(const CallArguments& a) {
  return ncclAlltoAll(a.send, a.receive, a.count, a.type, a.comm, a.stream);
}

ncclResult_t Gather(const CallArguments& a) {
  return ncclGather(a.send, a.receive, a.count, a.type, a.root, a.comm, a.stream);
}

ncclResult_t Scatter(const CallArguments& a) {
  return ncclScatter(a.send, a.receive, a.count, a.type, a.root, a.comm, a.stream);
}

// As sendrecv_perf of nccl-tests: each rank sends to the next one and receives from the previous
// one.
ncclResult_t SendReceive(const CallArguments& a) {
  int rank = 0, ranks = 0;
  ncclResult_t result = ncclCommUserRank(a.comm, &rank);
  if (result == ncclSuccess) result = ncclCommCount(a.comm, &ranks);
  if (result == ncclSuccess) result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  const ncclResult_t sent = ncclSend(a.send, a.count, a.type, (rank + 1) % ranks, a.comm, a.stream);
  const ncclResult_t received =
      ncclRecv(a.receive, a.count, a.type, (rank + ranks - 1) % ranks, a.comm, a.stream);
  const ncclResult_t ended = ncclGroupEnd();
  if (sent != ncclSuccess) return sent;
  return received != ncclSuccess ? received : ended;
}

double RingPasses(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double TwoRingPasses(int ranks) { return 2 * RingPasses(ranks); }
double One(int) { return 1; }

constexpr Collective kCollectives[] = {
    {.name = "all_reduce", .reduces = true, .call = AllReduce, .bus_factor = TwoRingPasses},
    {.name = "all_gather", .receive_per_rank = true, .call = AllGather, .bus_factor = RingPasses},
    {.name = "reduce_scatter",
     .reduces = true,
     .send_per_rank = true,
     .call = ReduceScatter,
     .bus_factor = RingPasses},
    {.name = "broadcast", .only_root_sends = true, .call = Broadcast, .bus_factor = One},
    {.name = "reduce",
     .reduces = true,
     .only_root_receives = true,
     .call = Reduce,
     .bus_factor = One},
    {.name = "alltoall",
     .send_per_rank = true,
     .receive_per_rank = true,
     .call = AlltoAll,
     .bus_factor = RingPasses},
    {.name = "gather",
     .only_root_receives = true,
     .receive_per_rank = true,
     .call = Gather,
     .bus_factor = RingPasses},
    {.name = "scatter",
     .only_root_sends = true,
     .send_per_rank = true,
     .call = Scatter,
     .bus_factor = RingPasses},
    {.name = "sendrecv", .from_previous_rank = true, .call = SendReceive, .bus_factor = One},
};

}  // namespace

std::span<const Collective> Collectives() { return kCollectives; }

}  // namespace collective_perf
