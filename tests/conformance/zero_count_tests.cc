// Empty operations: a collective of no elements returns at once and is not matched; a send and a
// receive of no bytes are matched.
#include <string>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace zero_count_tests {

Call Empty(const Collective& collective) {
  return {collective.kind, &TypeOf(ncclFloat32), ncclSum, 0, 0};
}

// Only rank 0 calls: if the call were matched, it would wait forever.
CONFORMANCE_TEST(zero_counts, empty_collectives_are_not_matched) {
  const auto [comm, stream] = OnWorld(t);
  DeviceBuffer buffer = t.NewBuffer(64);
  if (t.is_root()) {
    for (const Collective& collective : Collectives()) {
      const Call call = Empty(collective);
      t.ok() && t.ExpectResult(ncclSuccess, Post(call, buffer.data, buffer.data, comm, stream),
                               ToText(call).c_str());
    }
    t.Wait(stream);
  }
  t.Barrier();
  Works(t, comm);
}

// PyTorch passes the address of an empty tensor.
CONFORMANCE_TEST(zero_counts, collectives_take_null_pointers) {
  const auto [comm, stream] = OnWorld(t);
  for (const Collective& collective : Collectives()) {
    const Call call = Empty(collective);
    t.ok() && t.ExpectResult(ncclSuccess, Post(call, nullptr, nullptr, comm, stream),
                             ToText(call).c_str());
  }
  t.Wait(stream);
  Works(t, comm);
}

CONFORMANCE_TEST(zero_counts, arguments_of_empty_calls_are_checked) {
  ncclComm_t comm = t.World();
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclBroadcast(nullptr, nullptr, 0, ncclFloat, t.size(), comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, nullptr, nullptr));
  Works(t, comm);
}

// An empty send keeps its position in the order of the pair and matches the empty receive.
CONFORMANCE_TEST(zero_counts, empty_sends_are_matched, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, 100, stream);
  buffers.send.Fill(t.rank());
  buffers.receive.Fill(-1);
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(nullptr, 0, ncclInt32, next, comm, stream));
  NCCL_OK(t, ncclSend(buffers.send.data(), 100, ncclInt32, next, comm, stream));
  NCCL_OK(t, ncclRecv(nullptr, 0, ncclInt32, previous, comm, stream));
  NCCL_OK(t, ncclRecv(buffers.receive.data(), 100, ncclInt32, previous, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  buffers.receive.Expect(previous, "the message after an empty send");
}

CONFORMANCE_TEST(zero_counts, an_empty_receive_waits_for_its_send, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  if (t.rank() == 1) {
    NCCL_OK(t, ncclRecv(nullptr, 0, ncclInt32, 0, comm, stream));
    t.ExpectBusy(stream, "rank 0 has not made its empty send yet");
  }
  t.Barrier();
  if (t.is_root()) NCCL_OK(t, ncclSend(nullptr, 0, ncclInt32, 1, comm, stream));
  t.Wait(stream);
}

}  // namespace zero_count_tests
}  // namespace conformance
