// Counts that do not fit into 31 bits.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace large_tests {

constexpr size_t kTwoToThe31 = size_t{1} << 31;
// Free memory required on each device besides the buffers.
constexpr size_t kSpareBytes = 256 << 20;
// Size of the ranges that are checked: around every boundary at which an index could wrap, and at
// both ends.
constexpr size_t kWindow = 64 << 10;
constexpr size_t kLargeCount = kTwoToThe31 + kWindow + 12'345;

// The two most distant ranks of the job; the others are idle.
struct Pair {
  ncclComm_t comm = nullptr;
  int rank = -1;
};

bool TakesPart(const Test& t) { return t.is_root() || t.rank() == t.size() - 1; }

// Returns false if the test is skipped or has failed.
bool MakePair(Test& t, size_t bytes, Pair* pair) {
  size_t free = 0;
  size_t total = 0;
  CUDA_OK(t, cudaMemGetInfo(&free, &total));
  const bool enough = !TakesPart(t) || free >= bytes + kSpareBytes;
  const std::vector<int> all = t.ExchangeValues(enough ? 1 : 0);
  if (std::find(all.begin(), all.end(), 0) != all.end()) {
    t.Skip("needs " + std::to_string((bytes + kSpareBytes) >> 20) + " MiB of free device memory");
    return false;
  }
  const ncclUniqueId id = t.SharedId();
  if (!TakesPart(t)) return t.ok();
  pair->rank = t.is_root() ? 0 : 1;
  NCCL_OK(t, ncclCommInitRank(&pair->comm, 2, id, pair->rank));
  t.TakeOwnership(pair->comm);
  return t.ok();
}

int8_t Value(int rank, size_t index) {
  return static_cast<int8_t>((index >> 12) * 7 + index % 61 + 3 * rank);
}

std::vector<size_t> Places() {
  std::vector<size_t> places = {0, kTwoToThe31 / 2 - kWindow / 2, kTwoToThe31 - kWindow / 2};
  places.push_back(kLargeCount - kWindow);
  return places;
}

void FillAt(Test& t, int8_t* data, int rank) {
  std::vector<int8_t> part(kWindow);
  CUDA_OK(t, cudaMemset(data, 0, kLargeCount));
  for (size_t place : Places()) {
    for (size_t i = 0; i < kWindow; ++i) part[i] = Value(rank, place + i);
    CUDA_OK(t, cudaMemcpy(data + place, part.data(), kWindow, cudaMemcpyHostToDevice));
  }
}

template <typename Expected>
void ExpectAt(Test& t, const int8_t* data, Expected expected) {
  std::vector<int8_t> part(kWindow);
  for (size_t place : Places()) {
    CUDA_OK(t, cudaMemcpy(part.data(), data + place, kWindow, cudaMemcpyDeviceToHost));
    for (size_t i = 0; t.ok() && i < kWindow; ++i) {
      if (part[i] == expected(place + i)) continue;
      t.ExpectEqual(int{expected(place + i)}, int{part[i]}, "element " + std::to_string(place + i));
    }
  }
}

template <typename Post, typename Expected>
void InPlace(Test& t, Post post, Expected expected) {
  Pair pair;
  if (!MakePair(t, kLargeCount, &pair)) return;
  if (TakesPart(t)) {
    cudaStream_t stream = t.NewStream();
    auto* data = reinterpret_cast<int8_t*>(t.NewBuffer(kLargeCount).data);
    if (t.ok()) FillAt(t, data, pair.rank);
    NCCL_OK(t, post(pair, data, stream));
    t.Wait(stream);
    if (t.ok()) ExpectAt(t, data, [&](size_t index) { return expected(pair, index); });
    t.Destroy(pair.comm);
  }
  t.Barrier();
}

CONFORMANCE_TEST(large, all_reduce_of_more_than_2_to_the_31_int8, .min_ranks = 2) {
  InPlace(
      t,
      [](const Pair& pair, int8_t* data, cudaStream_t stream) {
        return ncclAllReduce(data, data, kLargeCount, ncclInt8, ncclSum, pair.comm, stream);
      },
      [](const Pair&, size_t index) {
        return static_cast<int8_t>(Value(0, index) + Value(1, index));
      });
}

CONFORMANCE_TEST(large, broadcast_of_more_than_2_to_the_31_int8, .min_ranks = 2) {
  InPlace(
      t,
      [](const Pair& pair, int8_t* data, cudaStream_t stream) {
        return ncclBroadcast(data, data, kLargeCount, ncclInt8, 1, pair.comm, stream);
      },
      [](const Pair&, size_t index) { return Value(1, index); });
}

CONFORMANCE_TEST(large, send_and_receive_of_more_than_2_to_the_31_int8, .min_ranks = 2) {
  InPlace(
      t,
      [](const Pair& pair, int8_t* data, cudaStream_t stream) {
        return pair.rank == 0 ? ncclSend(data, kLargeCount, ncclInt8, 1, pair.comm, stream)
                              : ncclRecv(data, kLargeCount, ncclInt8, 0, pair.comm, stream);
      },
      [](const Pair&, size_t index) { return Value(0, index); });
}

}  // namespace large_tests
}  // namespace conformance
