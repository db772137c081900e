// Groups: state per thread, only the outermost end takes effect, and which calls one group may
// combine.
#include <thread>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace group_tests {

constexpr size_t kCount = 5000;

CONFORMANCE_TEST(groups, an_empty_group_succeeds) {
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclGroupEnd());
}

CONFORMANCE_TEST(groups, end_without_start_is_invalid_usage) {
  NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupEnd());
  Works(t, t.World());
}

CONFORMANCE_TEST(groups, only_the_outermost_end_takes_effect) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1, /*received=*/-1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  EXPECT_THAT(t, cudaStreamQuery(stream) == cudaSuccess, "an idle stream after an inner end");
  t.Barrier();  // if a call had taken effect, the data would have arrived by now
  buffers.receive.Expect(-1, "the output before the outermost end");
  NCCL_OK(t, ncclGroupEnd());
  buffers.receive.Expect(t.size(), "the output after the outermost end");
}

CONFORMANCE_TEST(groups, state_is_per_thread) {
  ncclComm_t in_group = t.World();
  ncclComm_t other = t.NewWorld();
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, in_group, stream));
  // This thread is not in a group: its call takes effect at once, and this end has no start.
  std::thread([&] {
    cudaSetDevice(t.self().device);
    NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupEnd());
    Works(t, other);
  }).join();
  NCCL_OK(t, ncclGroupEnd());
  buffers.receive.Expect(t.size(), "the group's output");
  t.Destroy(other);
}

CONFORMANCE_TEST(groups, an_error_inside_is_returned_by_the_outermost_end) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1, /*received=*/-1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, comm, stream));
  NCCL_OK(t, ncclGroupStart());
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclBroadcast(buffers.send.data(), buffers.receive.data(), kCount, ncclInt32,
                             t.size(), comm, stream));
  if (t.ok()) ncclGroupEnd();  // an inner end may return the error or not
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGroupEnd());
  // All queued calls are dropped.
  t.Barrier();
  buffers.receive.Expect(-1, "the output of a group that failed");
  Works(t, comm);
}

CONFORMANCE_TEST(groups, a_new_group_clears_the_error_of_the_last) {
  ncclComm_t comm = t.World();
  NCCL_OK(t, ncclGroupStart());
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(nullptr, nullptr, 1, ncclInt32, ncclSum, nullptr, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGroupEnd());
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclGroupEnd());
  Works(t, comm);
}

CONFORMANCE_TEST(groups, many_operations_in_one_group) {
  constexpr int kOperations = 100;
  const auto [comm, stream] = OnWorld(t);
  std::vector<IntBuffers> all;
  for (int i = 0; i < kOperations; ++i) all.emplace_back(t, 64, stream).send.Fill(i);
  NCCL_OK(t, ncclGroupStart());
  for (const IntBuffers& buffers : all) NCCL_OK(t, SumInto(buffers, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  for (int i = 0; i < kOperations; ++i) all[i].receive.Expect(i * t.size(), "the output");
}

CONFORMANCE_TEST(groups, several_communicators) {
  ncclComm_t comms[] = {t.World(), t.NewWorld(), t.NewWorld()};
  cudaStream_t stream = t.NewStream();
  std::vector<IntBuffers> all;
  for (int i = 0; i < 3; ++i) all.emplace_back(t, kCount, stream).send.Fill(i + 1);
  NCCL_OK(t, ncclGroupStart());
  for (int i = 0; i < 3; ++i) NCCL_OK(t, SumInto(all[i], comms[i], stream));
  NCCL_OK(t, ncclGroupEnd());
  for (int i = 0; i < 3; ++i) all[i].receive.Expect((i + 1) * t.size(), "the output");
  t.Destroy(comms[1]);
  t.Destroy(comms[2]);
}

// Ranks list the communicators of a group in different orders; the group is one operation.
CONFORMANCE_TEST(groups, several_communicators_in_any_order, .min_ranks = 2) {
  ncclComm_t comms[] = {t.World(), t.NewWorld()};
  cudaStream_t stream = t.NewStream();
  std::vector<IntBuffers> all;
  for (int i = 0; i < 2; ++i) all.emplace_back(t, kCount, stream).send.Fill(i + 1);
  // Neighbours differ, then pairs of neighbours, so that ranks of different hosts do in any layout.
  for (int alike = 1; t.ok() && alike < t.size(); alike *= 2) {
    const int first = t.rank() / alike % 2;
    NCCL_OK(t, ncclGroupStart());
    for (int i : {first, 1 - first}) NCCL_OK(t, SumInto(all[i], comms[i], stream));
    NCCL_OK(t, ncclGroupEnd());
    for (int i = 0; i < 2; ++i) all[i].receive.Expect((i + 1) * t.size(), "the output");
  }
  t.Destroy(comms[1]);
}

// The work of a group starts after all of its streams of that communicator, and all of them wait
// for it.
CONFORMANCE_TEST(groups, several_streams_of_one_communicator) {
  ncclComm_t comm = t.World();
  cudaStream_t free = t.NewStream();
  cudaStream_t held = t.NewStream();
  IntBuffers first(t, kCount, free);
  IntBuffers second(t, kCount, held);
  first.send.Fill(1);
  second.send.Fill(2);
  t.Wait(free);
  t.Wait(held);
  Gate* gate = t.NewGate(held);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(first, comm, free));
  NCCL_OK(t, SumInto(second, comm, held));
  NCCL_OK(t, ncclGroupEnd());
  t.ExpectBusy(free, "another stream of the group is blocked");
  gate->Open();
  first.receive.Expect(t.size(), "the free stream's output");
  second.receive.Expect(2 * t.size(), "the held stream's output");
}

// The second operation reads the output of the first on another stream; only NCCL's issue order
// orders them.
CONFORMANCE_TEST(groups, operations_of_a_communicator_run_in_issue_order) {
  ncclComm_t comm = t.World();
  cudaStream_t held = t.NewStream();
  cudaStream_t free = t.NewStream();
  IntBuffers buffers(t, kCount, held);
  IntBuffer last(t, kCount, free);
  buffers.send.Fill(1);
  buffers.receive.Fill(0);
  t.Wait(held);
  Gate* gate = t.NewGate(held);
  NCCL_OK(t, SumInto(buffers, comm, held));
  NCCL_OK(t, ncclAllReduce(buffers.receive.data(), last.data(), kCount, ncclInt32, ncclSum, comm,
                           free));
  t.ExpectBusy(free, "the previous operation is blocked");
  gate->Open();
  last.Expect(t.size() * t.size(), "the sum of the first operation's sums");
}

CONFORMANCE_TEST(groups, collectives_and_point_to_point_together, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers sum(t, kCount, stream);
  IntBuffers ring(t, kCount, stream);
  sum.send.Fill(1);
  ring.send.Fill(t.rank());
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(ring.send.data(), kCount, ncclInt32, next, comm, stream));
  NCCL_OK(t, SumInto(sum, comm, stream));
  NCCL_OK(t, ncclRecv(ring.receive.data(), kCount, ncclInt32, previous, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  sum.receive.Expect(t.size(), "the sum");
  ring.receive.Expect(previous, "the data that the previous rank sent");
}

// Calls that create communicators run before work, so one group may contain both.
CONFORMANCE_TEST(groups, split_and_work_in_one_group) {
  ncclComm_t comm = t.World();
  ncclComm_t other = t.NewWorld();
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  ncclComm_t child = nullptr;
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, other, stream));
  NCCL_OK(t, ncclCommSplit(comm, 0, t.rank(), &child, nullptr));
  NCCL_OK(t, ncclGroupEnd());
  t.TakeOwnership(child);
  buffers.receive.Expect(t.size(), "the output");
  EXPECT_THAT(t, child != nullptr, "a new communicator when the group has ended");
  Works(t, child);
  t.Destroy(child);
  t.Destroy(other);
}

CONFORMANCE_TEST(groups, several_splits_in_one_group) {
  ncclComm_t comm = t.World();
  ncclComm_t children[2] = {};
  NCCL_OK(t, ncclGroupStart());
  for (ncclComm_t& child : children) NCCL_OK(t, ncclCommSplit(comm, 0, t.rank(), &child, nullptr));
  NCCL_OK(t, ncclGroupEnd());
  for (ncclComm_t child : children) t.TakeOwnership(child);
  for (ncclComm_t child : children) Works(t, child);
  for (ncclComm_t child : children) t.Destroy(child);
}

// The return value of the group's end is unspecified, but it returns, and its stream is released.
CONFORMANCE_TEST(groups, an_abort_within_a_group) {
  ncclComm_t world = t.World();
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, 1000, stream, 1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, comm, stream));
  t.Abort(comm);
  if (t.ok()) (void)ncclGroupEnd();
  t.Wait(stream);
  Works(t, world);
}

CONFORMANCE_TEST(groups, simulate_end_fills_a_time_and_runs_nothing) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1, /*received=*/-1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, comm, stream));
  NCCL_OK(t, ncclGroupSimulateEnd(&info));
  EXPECT_THAT(t, info.estimatedTime > 0,
              "an estimated time, got " + std::to_string(info.estimatedTime));
  t.Barrier();
  buffers.receive.Expect(-1, "the output of a simulated group");
  Works(t, comm);
}

CONFORMANCE_TEST(groups, simulate_end_needs_its_struct_initialized) {
  ncclSimInfo_t info{};
  info.size = sizeof(info);
  NCCL_OK(t, ncclGroupStart());
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGroupSimulateEnd(&info));
  NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupSimulateEnd(&info));
  Works(t, t.World());
}

}  // namespace group_tests
}  // namespace conformance
