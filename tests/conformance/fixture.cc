#include "conformance/fixture.h"

#include <algorithm>
#include <string>
#include <vector>

namespace conformance {
namespace {

constexpr size_t kCountOfWorks = 1000;

}  // namespace

IntBuffer::IntBuffer(Test& test, size_t count, cudaStream_t stream)
    : IntBuffer(test, test.NewBuffer(count * sizeof(int32_t)).data, count, stream) {}

IntBuffer::IntBuffer(Test& test, void* data, size_t count, cudaStream_t stream)
    : test_(test), data_(static_cast<int32_t*>(data)), count_(count), stream_(stream) {}

void IntBuffer::Fill(int32_t value) {
  if (!test_.ok()) return;
  const size_t bytes = count_ * sizeof(int32_t);
  if (host_ == nullptr) host_ = reinterpret_cast<int32_t*>(test_.NewHostMemory(bytes));
  std::fill_n(host_, count_, value);
  CUDA_OK(test_, cudaMemcpyAsync(data_, host_, bytes, cudaMemcpyDefault, stream_));
}

bool IntBuffer::Expect(int32_t value, const char* what, const Location& where) {
  if (!test_.Wait(stream_, where)) return false;
  std::vector<int32_t> now(count_);
  // Not on the legacy stream: it may share a hardware queue with the stream of another thread's
  // rank on the same GPU, whose call waits for this thread's next one.
  CUDA_OK(test_,
          cudaMemcpyAsync(now.data(), data_, count_ * sizeof(int32_t), cudaMemcpyDefault, stream_));
  if (!test_.Wait(stream_, where)) return false;
  for (size_t i = 0; test_.ok() && i < count_; ++i) {
    if (now[i] == value) continue;
    test_.ExpectEqual(value, now[i], std::string(what) + " at " + std::to_string(i), where);
  }
  return test_.ok();
}

IntBuffers::IntBuffers(Test& test, size_t count, cudaStream_t stream, int32_t sent,
                       std::optional<int32_t> received)
    : IntBuffers(test, count, stream) {
  send.Fill(sent);
  if (received) receive.Fill(*received);
  test.Wait(stream);
}

ncclResult_t SumInto(const IntBuffers& buffers, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(buffers.send.data(), buffers.receive.data(), buffers.send.count(), ncclInt32,
                       ncclSum, comm, stream);
}

bool Works(Test& test, ncclComm_t comm, int rank, int size, const Location& where) {
  if (!test.ok()) return false;
  cudaStream_t stream = test.NewStream();
  IntBuffers buffers(test, kCountOfWorks, stream);
  buffers.send.Fill(rank + 1);
  if (!test.ok()) return false;
  return test.ExpectResult(ncclSuccess,
                           ncclAllReduce(buffers.send.data(), buffers.receive.data(), kCountOfWorks,
                                         ncclInt32, ncclSum, comm, stream),
                           "ncclAllReduce", where) &&
         buffers.receive.Expect(SumOfRanks(size), "the sum of all ranks", where);
}

bool Works(Test& test, ncclComm_t comm, const Location& where) {
  return Works(test, comm, test.rank(), test.size(), where);
}

}  // namespace conformance
