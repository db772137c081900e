// Empty operations: a collective of no elements returns at once and is not matched; a send and a
// receive of no bytes are matched.
#include <string>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace {

Call Empty(const Collective& collective) {
  return {collective.kind, &TypeOf(ncclFloat32), ncclSum, 0, 0};
}

// Only rank 0 calls: if the call were matched, it would wait forever.
void EmptyCollectivesAreNotMatched(Test& t) {
  ncclComm_t comm = t.World();
  cudaStream_t stream = t.NewStream();
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
void CollectivesTakeNullPointers(Test& t) {
  ncclComm_t comm = t.World();
  cudaStream_t stream = t.NewStream();
  for (const Collective& collective : Collectives()) {
    const Call call = Empty(collective);
    t.ok() && t.ExpectResult(ncclSuccess, Post(call, nullptr, nullptr, comm, stream),
                             ToText(call).c_str());
  }
  t.Wait(stream);
  Works(t, comm);
}

void ArgumentsOfEmptyCallsAreChecked(Test& t) {
  ncclComm_t comm = t.World();
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclBroadcast(nullptr, nullptr, 0, ncclFloat, t.size(), comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, nullptr, nullptr));
  Works(t, comm);
}

// An empty send keeps its position in the order of the pair and matches the empty receive.
void EmptySendsAreMatched(Test& t) {
  ncclComm_t comm = t.World();
  cudaStream_t stream = t.NewStream();
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

void AnEmptyReceiveWaitsForItsSend(Test& t) {
  ncclComm_t comm = t.World();
  cudaStream_t stream = t.NewStream();
  if (t.rank() == 1) {
    NCCL_OK(t, ncclRecv(nullptr, 0, ncclInt32, 0, comm, stream));
    t.ExpectBusy(stream, "rank 0 has not made its empty send yet");
  }
  t.Barrier();
  if (t.is_root()) NCCL_OK(t, ncclSend(nullptr, 0, ncclInt32, 1, comm, stream));
  t.Wait(stream);
}

}  // namespace

void AddZeroCountTests(TestTable* table) {
  const TestGroup add(table, "zero_counts");
  add("empty_collectives_are_not_matched", EmptyCollectivesAreNotMatched);
  add("collectives_take_null_pointers", CollectivesTakeNullPointers);
  add("arguments_of_empty_calls_are_checked", ArgumentsOfEmptyCallsAreChecked);
  add("empty_sends_are_matched", EmptySendsAreMatched, 2);
  add("an_empty_receive_waits_for_its_send", AnEmptyReceiveWaitsForItsSend, 2);
}

}  // namespace conformance
