// Cases that NCCL leaves undefined and a managed service must handle: mismatched calls end in an
// error that names both calls, and a bad address affects no other tenant.
#include <cstdlib>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace beyond_nccl_tests {

constexpr size_t kCount = 50'000;
constexpr size_t kBytes = kCount * sizeof(int32_t);

// Rank 0 makes one call, the others another. All ranks must get ncclInvalidUsage and an error
// message with all `words`. Streams stay blocked until the communicator is aborted.
void ExpectMismatch(Test& t, const Call& of_root, const Call& of_others,
                    const std::vector<std::string>& words) {
  const auto [comm, stream] = OnNewWorld(t);
  DeviceBuffer send = t.NewBuffer(kBytes * t.size());
  DeviceBuffer receive = t.NewBuffer(kBytes * t.size());
  const Call& call = t.is_root() ? of_root : of_others;
  ncclResult_t posted = ncclSuccess;
  if (t.ok()) {
    // If the other ranks have already called, the communicator may have failed before this call.
    posted = Post(call, send.data, receive.data, comm, stream);
    EXPECT_THAT(
        t, posted == ncclSuccess || posted == ncclInvalidUsage,
        "ncclSuccess or ncclInvalidUsage from " + ToText(call) + ", got " + std::to_string(posted));
  }
  ncclResult_t state = ncclSuccess;
  t.Until(
      [&] {
        NCCL_OK(t, ncclCommGetAsyncError(comm, &state));
        return state != ncclSuccess;
      },
      "an error for mismatched calls");
  t.ExpectEqual(ncclInvalidUsage, state, "the asynchronous error");
  const std::string text = t.ok() ? ncclGetLastError(comm) : "";
  for (const std::string& word : words) {
    EXPECT_THAT(t, text.find(word) != std::string::npos,
                "'" + word + "' in the error message: " + text);
  }
  t.Barrier();
  if (posted == ncclSuccess) t.ExpectBusy(stream, "its call failed");
  t.Abort(comm);
  t.Wait(stream);
  Works(t, t.World());
}

Call Ordinary(Kind kind = Kind::kAllReduce) {
  return {kind, &TypeOf(ncclInt32), ncclSum, kCount, 0};
}

CONFORMANCE_TEST(beyond_nccl, collectives_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  ExpectMismatch(t, Ordinary(Kind::kAllReduce), Ordinary(Kind::kBroadcast), {"rank"});
}

CONFORMANCE_TEST(beyond_nccl, counts_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  Call other = Ordinary();
  other.count = kCount / 2;
  ExpectMismatch(t, Ordinary(), other, {std::to_string(kCount), std::to_string(kCount / 2)});
}

CONFORMANCE_TEST(beyond_nccl, types_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  Call other = Ordinary();
  other.type = &TypeOf(ncclFloat32);
  ExpectMismatch(t, Ordinary(), other, {"int32", "float"});
}

CONFORMANCE_TEST(beyond_nccl, operators_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  Call other = Ordinary();
  other.op = ncclMax;
  ExpectMismatch(t, Ordinary(), other, {"sum", "max"});
}

CONFORMANCE_TEST(beyond_nccl, roots_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  Call other = Ordinary(Kind::kBroadcast);
  other.root = 1;
  ExpectMismatch(t, Ordinary(Kind::kBroadcast), other, {"root"});
}

CONFORMANCE_TEST(beyond_nccl, send_and_receive_mismatch, .min_ranks = 2, .beyond_nccl = true) {
  const auto [comm, stream] = OnNewWorld(t);
  DeviceBuffer buffer = t.NewBuffer(kBytes);
  const int last = t.size() - 1;
  if (t.is_root()) NCCL_OK(t, ncclSend(buffer.data, kCount, ncclInt32, last, comm, stream));
  if (t.rank() == last) NCCL_OK(t, ncclRecv(buffer.data, kCount / 2, ncclInt32, 0, comm, stream));
  const bool posted = t.is_root() || t.rank() == last;
  if (posted) {
    ncclResult_t state = ncclSuccess;
    t.Until(
        [&] {
          NCCL_OK(t, ncclCommGetAsyncError(comm, &state));
          return state != ncclSuccess;
        },
        "an error for a mismatched send and receive");
    t.ExpectEqual(ncclInvalidUsage, state, "the asynchronous error");
  }
  t.Barrier();
  if (posted) t.ExpectBusy(stream, "its call failed");
  t.Abort(comm);
  t.Wait(stream);
  Works(t, t.World());
}

void ExpectRejected(Test& t, void* send, void* receive, size_t count, const char* what) {
  if (!t.ok()) return;
  t.ExpectResult(ncclInvalidArgument,
                 ncclAllReduce(send, receive, count, ncclInt32, ncclSum, t.World(), nullptr), what);
  const char* last = t.ok() ? ncclGetLastError(t.World()) : "";
  EXPECT_THAT(t, last != nullptr && *last != '\0', std::string("an error message for ") + what);
}

CONFORMANCE_TEST(beyond_nccl, buffers_outside_device_memory, .beyond_nccl = true) {
  t.World();
  DeviceBuffer good = t.NewBuffer(kBytes);
  std::vector<std::byte> host(kBytes);
  ExpectRejected(t, nullptr, good.data, kCount, "an all-reduce from null");
  ExpectRejected(t, good.data, nullptr, kCount, "an all-reduce into null");
  ExpectRejected(t, reinterpret_cast<void*>(uintptr_t{0x1000}), good.data, kCount,
                 "an all-reduce from an unmapped address");
  ExpectRejected(t, reinterpret_cast<void*>(~uintptr_t{0} - 64), good.data, kCount,
                 "an all-reduce from the end of the address space");
  Works(t, t.World());
}

CONFORMANCE_TEST(beyond_nccl, buffers_that_are_too_small, .beyond_nccl = true) {
  t.World();
  DeviceBuffer small = t.NewBuffer(kBytes);
  DeviceBuffer good = t.NewBuffer(64 * kBytes);
  ExpectRejected(t, small.data, good.data, 64 * kCount, "an all-reduce past the end of its input");
  ExpectRejected(t, good.data, small.data, 64 * kCount, "an all-reduce past the end of its output");
  ExpectRejected(t, good.data, good.data, ~size_t{0} / 2,
                 "an all-reduce of more bytes than the address space has");
  ExpectRejected(t, good.data, good.data, ~size_t{0} / 4 + 2,
                 "an all-reduce whose size in bytes overflows");
  Works(t, t.World());
}

CONFORMANCE_TEST(beyond_nccl, buffers_that_were_freed, .beyond_nccl = true) {
  t.World();
  void* freed = nullptr;
  CUDA_OK(t, cudaMalloc(&freed, 64 * kBytes));
  DeviceBuffer good = t.NewBuffer(kBytes);
  NCCL_OK(t, ncclAllReduce(freed, good.data, kCount, ncclInt32, ncclSum, t.World(), nullptr));
  t.Wait(nullptr);
  CUDA_OK(t, cudaFree(freed));
  ExpectRejected(t, freed, good.data, kCount, "an all-reduce from freed memory");
  Works(t, t.World());
}

CONFORMANCE_TEST(beyond_nccl, handles_that_were_destroyed, .beyond_nccl = true) {
  ncclComm_t comm = t.NewWorld();
  Works(t, comm);
  t.Destroy(comm);
  DeviceBuffer buffer = t.NewBuffer(kBytes);
  int value = 0;
  ncclResult_t state = ncclSuccess;
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(buffer.data, buffer.data, 1, ncclInt32, ncclSum, comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCount(comm, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommDestroy(comm));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommAbort(comm));
  Works(t, t.World());
}

// The program no longer has the communicator's handle, so the group's end has to destroy it. The
// other ranks are notified and do not wait forever.
CONFORMANCE_TEST(beyond_nccl, a_destroy_in_a_failed_group, .min_ranks = 2, .beyond_nccl = true) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  if (t.is_root()) {
    NCCL_OK(t, ncclGroupStart());
    t.Destroy(comm);
    NCCL_RETURNS(t, ncclInvalidArgument, SumInto(buffers, comm, stream));
    NCCL_RETURNS(t, ncclInvalidArgument, ncclGroupEnd());
  } else {
    const ncclResult_t posted = SumInto(buffers, comm, stream);
    EXPECT_THAT(t, posted != ncclInvalidArgument, "a valid call to be accepted");
    ncclResult_t state = ncclSuccess;
    t.Until(
        [&] {
          NCCL_OK(t, ncclCommGetAsyncError(comm, &state));
          return state != ncclSuccess;
        },
        "a communicator that rank 0 has left to fail");
    if (posted == ncclSuccess) t.ExpectBusy(stream, "its call failed");
    t.Abort(comm);
    t.Wait(stream);
  }
  t.Barrier();
  Works(t, t.World());
}

CONFORMANCE_TEST(beyond_nccl, an_invalid_unique_id, .beyond_nccl = true) {
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, 0));
  EXPECT_THAT(t, comm == nullptr, "a null communicator from an invalid unique id");
}

}  // namespace beyond_nccl_tests
}  // namespace conformance
