// Buffers of every kind of memory, anywhere in their allocation; registration; RMA windows.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace memory_tests {

constexpr size_t kCount = 100'003;
constexpr size_t kBytes = kCount * sizeof(int32_t);

// Runs an all-reduce and an all-gather in the caller's memory: `size + 1` parts of kBytes.
void WorksIn(Test& t, void* memory, cudaStream_t stream, ncclComm_t comm = nullptr) {
  if (comm == nullptr) comm = t.World();
  auto* data = static_cast<int32_t*>(memory);
  IntBuffer send(t, data, kCount, stream);
  IntBuffer sum(t, data + kCount, kCount, stream);
  send.Fill(t.rank() + 1);
  NCCL_OK(t, ncclAllReduce(send.data(), sum.data(), kCount, ncclInt32, ncclSum, comm, stream));
  sum.Expect(SumOfRanks(t.size()), "the sum");
  NCCL_OK(t, ncclAllGather(send.data(), sum.data(), kCount, ncclInt32, comm, stream));
  for (int rank = 0; rank < t.size(); ++rank) {
    IntBuffer part(t, sum.data() + rank * kCount, kCount, stream);
    part.Expect(rank + 1, "a part of the all-gather's output");
  }
}

size_t BytesOfWork(const Test& t) { return kBytes * (t.size() + 1); }

CONFORMANCE_TEST(memory, nccl_mem_alloc) {
  void* memory = nullptr;
  NCCL_OK(t, ncclMemAlloc(&memory, BytesOfWork(t)));
  EXPECT_THAT(t, memory != nullptr, "memory from ncclMemAlloc");
  WorksIn(t, memory, t.NewStream());
  NCCL_OK(t, ncclMemFree(memory));
  NCCL_OK(t, ncclMemFree(nullptr));
}

CONFORMANCE_TEST(memory, pinned_host_memory) {
  void* memory = nullptr;
  CUDA_OK(t, cudaHostAlloc(&memory, BytesOfWork(t), cudaHostAllocDefault));
  WorksIn(t, memory, t.NewStream());
  CUDA_OK(t, cudaFreeHost(memory));
}

CONFORMANCE_TEST(memory, registered_host_memory) {
  std::byte* memory = t.NewHostMemory(BytesOfWork(t));
  CUDA_OK(t, cudaHostRegister(memory, BytesOfWork(t), cudaHostRegisterDefault));
  WorksIn(t, memory, t.NewStream());
  CUDA_OK(t, cudaHostUnregister(memory));
}

CONFORMANCE_TEST(memory, managed_memory) {
  void* memory = nullptr;
  CUDA_OK(t, cudaMallocManaged(&memory, BytesOfWork(t), cudaMemAttachGlobal));
  WorksIn(t, memory, t.NewStream());
  CUDA_OK(t, cudaFree(memory));
}

CONFORMANCE_TEST(memory, memory_of_the_default_pool) {
  cudaStream_t stream = t.NewStream();
  for (int i = 0; t.ok() && i < 5; ++i) {
    void* memory = nullptr;
    CUDA_OK(t, cudaMallocAsync(&memory, BytesOfWork(t), stream));
    WorksIn(t, memory, stream);
    CUDA_OK(t, cudaFreeAsync(memory, stream));
  }
  t.Wait(stream);
}

// The allocation is freed in stream order after the work, without a wait.
CONFORMANCE_TEST(memory, pool_memory_freed_behind_its_work) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer result(t, kCount, stream);
  for (int i = 1; t.ok() && i <= 20; ++i) {
    void* memory = nullptr;
    CUDA_OK(t, cudaMallocAsync(&memory, kBytes, stream));
    IntBuffer send(t, memory, kCount, stream);
    send.Fill(i);
    NCCL_OK(t, ncclAllReduce(memory, result.data(), kCount, ncclInt32, ncclSum, comm, stream));
    CUDA_OK(t, cudaFreeAsync(memory, stream));
    result.Expect(i * t.size(), "the sum");
  }
}

CONFORMANCE_TEST(memory, pool_memory_on_several_streams_of_one_group) {
  ncclComm_t comm = t.World();
  cudaStream_t first = t.NewStream(), second = t.NewStream();
  for (int i = 1; t.ok() && i <= 5; ++i) {
    void *one = nullptr, *other = nullptr;
    CUDA_OK(t, cudaMallocAsync(&one, kBytes, first));
    CUDA_OK(t, cudaMallocAsync(&other, kBytes, second));
    IntBuffer of_first(t, one, kCount, first), of_second(t, other, kCount, second);
    of_first.Fill(i);
    of_second.Fill(-i);
    NCCL_OK(t, ncclGroupStart());
    NCCL_OK(t, ncclAllReduce(one, one, kCount, ncclInt32, ncclSum, comm, first));
    NCCL_OK(t, ncclAllReduce(other, other, kCount, ncclInt32, ncclSum, comm, second));
    NCCL_OK(t, ncclGroupEnd());
    of_first.Expect(i * t.size(), "the sum on the first stream");
    of_second.Expect(-i * t.size(), "the sum on the second stream");
    CUDA_OK(t, cudaFreeAsync(one, first));
    CUDA_OK(t, cudaFreeAsync(other, second));
  }
  t.Wait(first);
  t.Wait(second);
}

// The operations of a communicator run in the order of their calls, whatever their streams.
CONFORMANCE_TEST(memory, pool_memory_of_an_operation_on_another_stream) {
  ncclComm_t comm = t.World();
  cudaStream_t first = t.NewStream(), second = t.NewStream();
  IntBuffer sum(t, kCount, second);
  for (int i = 1; t.ok() && i <= 5; ++i) {
    void* memory = nullptr;
    CUDA_OK(t, cudaMallocAsync(&memory, kBytes, first));
    IntBuffer shared(t, memory, kCount, first);
    shared.Fill(i);
    NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, comm, first));
    NCCL_OK(t, ncclAllReduce(memory, sum.data(), kCount, ncclInt32, ncclSum, comm, second));
    NCCL_OK(t, ncclAllReduce(sum.data(), memory, kCount, ncclInt32, ncclSum, comm, second));
    NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclMax, comm, first));
    sum.Expect(i * t.size() * t.size(), "the sum of sums");
    shared.Expect(i * t.size() * t.size() * t.size(), "the last sum");
    t.Wait(second);
    CUDA_OK(t, cudaFreeAsync(memory, first));
    t.Wait(first);
  }
}

// Two buffers of one allocation, at an odd element, up to its last byte.
CONFORMANCE_TEST(memory, anywhere_in_an_allocation) {
  const auto [comm, stream] = OnWorld(t);
  const size_t odd = 12'347;
  DeviceBuffer memory = t.NewBuffer(2 * kBytes + odd * sizeof(int32_t));
  IntBuffer send(t, memory.As<int32_t>() + odd, kCount, stream);
  IntBuffer receive(t, memory.As<int32_t>() + odd + kCount, kCount, stream);
  send.Fill(1);
  NCCL_OK(t, ncclAllReduce(send.data(), receive.data(), kCount, ncclInt32, ncclSum, comm, stream));
  receive.Expect(t.size(), "the sum");
  send.Expect(1, "the input");
}

CONFORMANCE_TEST(memory, one_allocation_for_send_one_for_receive) {
  for (size_t bytes : {size_t{4}, size_t{100}, size_t{5} << 20}) {
    const auto [comm, stream] = OnWorld(t);
    IntBuffers buffers(t, bytes / sizeof(int32_t), stream);
    buffers.send.Fill(2);
    NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), buffers.send.count(),
                             ncclInt32, ncclSum, comm, stream));
    buffers.receive.Expect(2 * t.size(), "the sum");
  }
}

// An allocator reuses the same addresses with other sizes: the library must detect that.
CONFORMANCE_TEST(memory, freed_and_reused_addresses) {
  const auto [comm, stream] = OnWorld(t);
  for (int i = 1; t.ok() && i <= 20; ++i) {
    const size_t count = i % 2 == 0 ? 1000 : 300'000;
    void* memory = nullptr;
    CUDA_OK(t, cudaMalloc(&memory, 2 * count * sizeof(int32_t)));
    IntBuffer send(t, memory, count, stream);
    IntBuffer receive(t, static_cast<int32_t*>(memory) + count, count, stream);
    send.Fill(i);
    NCCL_OK(t, ncclAllReduce(send.data(), receive.data(), count, ncclInt32, ncclSum, comm, stream));
    receive.Expect(i * t.size(), "the sum");
    CUDA_OK(t, cudaFree(memory));
  }
}

size_t FreeBytes(Test& t) {
  size_t free_bytes = 0;
  size_t total = 0;
  CUDA_OK(t, cudaMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

// More memory over time than a library may keep; the library must not keep it.
CONFORMANCE_TEST(memory, allocations_come_and_go) {
  constexpr size_t kPiece = 4 << 20;
  constexpr size_t kKept = 4 * kPiece;
  size_t free_at_first = 0;
  const auto [comm, stream] = OnWorld(t);
  for (int i = 0; t.ok() && i < 40; ++i) {
    void* memory = nullptr;
    CUDA_OK(t, cudaMalloc(&memory, kPiece + i * 4096));
    IntBuffer buffer(t, memory, 1000, stream);
    buffer.Fill(1);
    NCCL_OK(t, ncclAllReduce(memory, memory, 1000, ncclInt32, ncclSum, comm, stream));
    buffer.Expect(t.size(), "the sum");
    CUDA_OK(t, cudaFree(memory));
    if (i == 0) free_at_first = FreeBytes(t);
  }
  EXPECT_THAT(t, FreeBytes(t) + kKept >= free_at_first, "nearly all freed memory to be free again");
}

CONFORMANCE_TEST(registration, register_and_deregister) {
  const auto [comm, stream] = OnWorld(t);
  DeviceBuffer memory = t.NewBuffer(BytesOfWork(t));
  void* handle = nullptr;
  void* again = nullptr;
  NCCL_OK(t, ncclCommRegister(comm, memory.data, memory.bytes, &handle));
  WorksIn(t, memory.data, stream);
  NCCL_OK(t, ncclCommRegister(comm, memory.data, memory.bytes, &again));
  NCCL_OK(t, ncclCommDeregister(comm, handle));
  WorksIn(t, memory.data, stream);
  NCCL_OK(t, ncclCommDeregister(comm, again));
  WorksIn(t, memory.data, stream);
  NCCL_OK(t, ncclCommDeregister(comm, nullptr));
}

CONFORMANCE_TEST(registration, of_a_part) {
  ncclComm_t comm = t.World();
  DeviceBuffer memory = t.NewBuffer(BytesOfWork(t));
  void* handle = nullptr;
  NCCL_OK(t, ncclCommRegister(comm, memory.data + 4096, 8192, &handle));
  WorksIn(t, memory.data, t.NewStream());
  NCCL_OK(t, ncclCommDeregister(comm, handle));
}

// As an allocator hook does: registers each segment and deregisters it just before the free.
CONFORMANCE_TEST(registration, comes_and_goes) {
  const auto [comm, stream] = OnWorld(t);
  for (int i = 0; t.ok() && i < 20; ++i) {
    void* memory = nullptr;
    void* handle = nullptr;
    CUDA_OK(t, cudaMalloc(&memory, kBytes));
    NCCL_OK(t, ncclCommRegister(comm, memory, kBytes, &handle));
    IntBuffer buffer(t, memory, kCount, stream);
    buffer.Fill(1);
    NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, comm, stream));
    buffer.Expect(t.size(), "the sum");
    NCCL_OK(t, ncclCommDeregister(comm, handle));
    CUDA_OK(t, cudaFree(memory));
  }
}

void Windows(Test& t, int flags) {
  ncclComm_t comm = t.NewWorld();
  void* memory = nullptr;
  NCCL_OK(t, ncclMemAlloc(&memory, BytesOfWork(t)));
  ncclWindow_t window = nullptr;
  NCCL_OK(t, ncclCommWindowRegister(comm, memory, BytesOfWork(t), &window, flags));
  EXPECT_THAT(t, window != nullptr, "a handle from ncclCommWindowRegister");
  WorksIn(t, memory, t.NewStream(), comm);
  NCCL_OK(t, ncclCommWindowDeregister(comm, window));
  NCCL_OK(t, ncclCommWindowDeregister(comm, nullptr));
  WorksIn(t, memory, t.NewStream(), comm);
  t.Barrier();
  NCCL_OK(t, ncclMemFree(memory));
  t.Destroy(comm);
}

CONFORMANCE_TEST(registration, a_window_in_a_group) {
  const auto [comm, stream] = OnNewWorld(t);
  void* memory = nullptr;
  NCCL_OK(t, ncclMemAlloc(&memory, 2 * kBytes));
  IntBuffer send(t, memory, kCount, stream);
  IntBuffer receive(t, static_cast<int32_t*>(memory) + kCount, kCount, stream);
  send.Fill(1);
  t.Wait(stream);
  ncclWindow_t window = nullptr;
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclCommWindowRegister(comm, memory, 2 * kBytes, &window, NCCL_WIN_DEFAULT));
  NCCL_OK(t, ncclGroupEnd());
  NCCL_OK(t, ncclAllReduce(send.data(), receive.data(), kCount, ncclInt32, ncclSum, comm, stream));
  receive.Expect(t.size(), "the sum");
  NCCL_OK(t, ncclCommWindowDeregister(comm, window));
  t.Barrier();
  NCCL_OK(t, ncclMemFree(memory));
  t.Destroy(comm);
}

// NULL and cudaStreamLegacy are the same stream; each call of the group has its own result.
CONFORMANCE_TEST(memory, two_names_of_the_legacy_stream_in_one_group) {
  ncclComm_t comm = t.World();
  cudaStream_t names[] = {nullptr, cudaStreamLegacy};
  void* memory = nullptr;
  CUDA_OK(t, cudaHostAlloc(&memory, 4 * kBytes, cudaHostAllocDefault));
  std::vector<IntBuffer> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.emplace_back(t, static_cast<int32_t*>(memory) + i * kCount, kCount, nullptr).Fill(i);
  }
  NCCL_OK(t, ncclGroupStart());
  for (cudaStream_t stream : names) {
    const size_t pair = stream == nullptr ? 0 : 2;
    NCCL_OK(t, ncclAllReduce(buffers[pair].data(), buffers[pair + 1].data(), kCount, ncclInt32,
                             ncclSum, comm, stream));
  }
  NCCL_OK(t, ncclGroupEnd());
  buffers[1].Expect(0, "the sum on NULL");
  buffers[3].Expect(2 * t.size(), "the sum on cudaStreamLegacy");
  CUDA_OK(t, cudaFreeHost(memory));
}

// Ranks may use different kinds of memory.
CONFORMANCE_TEST(memory, kinds_mix_in_one_operation, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  void* memory = nullptr;
  const int kind = t.rank() % 3;
  if (kind == 0) CUDA_OK(t, cudaMalloc(&memory, kBytes));
  if (kind == 1) CUDA_OK(t, cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault));
  if (kind == 2) CUDA_OK(t, cudaMallocAsync(&memory, kBytes, stream));
  IntBuffer buffer(t, memory, kCount, stream);
  buffer.Fill(1);
  NCCL_OK(t, ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, comm, stream));
  buffer.Expect(t.size(), "the sum");
  if (kind == 0) CUDA_OK(t, cudaFree(memory));
  if (kind == 1) CUDA_OK(t, cudaFreeHost(memory));
  if (kind == 2) CUDA_OK(t, cudaFreeAsync(memory, stream));
}

CONFORMANCE_TEST(registration, windows) { Windows(t, NCCL_WIN_DEFAULT); }

CONFORMANCE_TEST(registration, symmetric_windows) { Windows(t, NCCL_WIN_COLL_SYMMETRIC); }

}  // namespace memory_tests
}  // namespace conformance
