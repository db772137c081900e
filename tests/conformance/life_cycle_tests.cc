// Communicators from their creation to each kind of end.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/library.h"
#include "conformance/test_table.h"

namespace conformance {
namespace life_cycle_tests {

constexpr size_t kCount = 10'000;

CONFORMANCE_TEST(life_cycle, queries_return_values) {
  ncclComm_t comm = t.World();
  int size = -1;
  int rank = -1;
  int device = -1;
  ncclResult_t state = ncclInternalError;
  NCCL_OK(t, ncclCommCount(comm, &size));
  NCCL_OK(t, ncclCommUserRank(comm, &rank));
  NCCL_OK(t, ncclCommCuDevice(comm, &device));
  NCCL_OK(t, ncclCommGetAsyncError(comm, &state));
  t.ExpectEqual(t.size(), size, "ncclCommCount");
  t.ExpectEqual(t.rank(), rank, "ncclCommUserRank");
  t.ExpectEqual(t.self().device, device, "ncclCommCuDevice");
  t.ExpectEqual(ncclSuccess, state, "the asynchronous error");
}

CONFORMANCE_TEST(life_cycle, null_is_accepted_by_all_ends) {
  NCCL_OK(t, ncclCommFinalize(nullptr));
  NCCL_OK(t, ncclCommDestroy(nullptr));
  NCCL_OK(t, ncclCommAbort(nullptr));
  NCCL_OK(t, ncclCommRevoke(nullptr, NCCL_REVOKE_DEFAULT));
}

CONFORMANCE_TEST(life_cycle, finalize_then_destroy) {
  ncclComm_t comm = t.NewWorld();
  Works(t, comm);
  NCCL_OK(t, ncclCommFinalize(comm));
  t.Settle(comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, a_second_finalize_is_invalid_argument) {
  ncclComm_t comm = t.NewWorld();
  NCCL_OK(t, ncclCommFinalize(comm));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommFinalize(comm));
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, destroy_without_finalize) {
  ncclComm_t comm = t.NewWorld();
  Works(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, destroy_of_an_unused_communicator) { t.Destroy(t.NewWorld()); }

// Work that was posted before is completed.
CONFORMANCE_TEST(life_cycle, finalize_flushes_what_was_issued) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  NCCL_OK(t, ncclCommFinalize(comm));
  buffers.receive.Expect(t.size(), "the sum posted before finalize");
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, destroy_flushes_what_was_issued) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  t.Destroy(comm);
  buffers.receive.Expect(t.size(), "the sum posted before destroy");
}

CONFORMANCE_TEST(life_cycle, abort_of_an_idle_communicator) {
  ncclComm_t comm = t.NewWorld();
  Works(t, comm);
  t.Barrier();
  t.Abort(comm);
  Works(t, t.World());
}

// Rank 0 never calls, so the others' work can end only by abort.
CONFORMANCE_TEST(life_cycle, abort_ends_work_in_flight_and_releases_streams, .min_ranks = 2) {
  ncclComm_t comm = t.NewWorld();
  cudaStream_t first = t.NewStream();
  cudaStream_t second = t.NewStream();
  IntBuffers buffers(t, kCount, first, /*sent=*/1);
  if (!t.is_root()) {
    for (cudaStream_t stream : {first, second}) {
      NCCL_OK(t, SumInto(buffers, comm, stream));
    }
    t.ExpectBusy(first, "rank 0 does not call");
  }
  t.Barrier();
  t.Abort(comm);
  t.Wait(first);
  t.Wait(second);
  Works(t, t.World());
}

CONFORMANCE_TEST(life_cycle, abort_after_a_gate) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  Gate* gate = t.NewGate(stream);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  t.Barrier();
  // The gate opens only after abort has begun: abort must not only wait for the stream.
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    gate->Open();
  });
  t.Abort(comm);
  opens.join();
  t.Wait(stream);
  Works(t, t.World());
}

// Half of the ranks have work of another communicator in flight at that time.
CONFORMANCE_TEST(life_cycle, abort_does_not_affect_other_communicators, .min_ranks = 2) {
  ncclComm_t doomed = t.NewWorld();
  ncclComm_t other = t.NewWorld();
  cudaStream_t stuck = t.NewStream();
  cudaStream_t stream = t.NewStream();
  IntBuffers wasted(t, kCount, stuck);
  IntBuffers buffers(t, kCount, stream);
  wasted.send.Fill(1);
  buffers.send.Fill(1);
  t.Wait(stuck);
  t.Wait(stream);
  if (!t.is_root()) {
    NCCL_OK(t, SumInto(wasted, doomed, stuck));
  }
  if (t.rank() % 2 == 0) {
    NCCL_OK(t, SumInto(buffers, other, stream));
  }
  t.Barrier();
  t.Abort(doomed);
  t.Wait(stuck);
  if (t.rank() % 2 == 1) {
    NCCL_OK(t, SumInto(buffers, other, stream));
  }
  buffers.receive.Expect(t.size(), "the sum of the other communicator");
  t.Destroy(other);
}

CONFORMANCE_TEST(life_cycle, revoked_rejects_collectives) {
  ncclComm_t comm = t.NewWorld();
  Works(t, comm);
  t.Barrier();
  NCCL_OK(t, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  t.Settle(comm);
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  NCCL_RETURNS(t, ncclInvalidUsage, SumInto(buffers, comm, stream));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommFinalize(comm));
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, revoke_stops_work_in_flight, .min_ranks = 2) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  if (!t.is_root()) {
    NCCL_OK(t, SumInto(buffers, comm, stream));
  }
  t.Barrier();
  NCCL_OK(t, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  t.Settle(comm);
  t.Wait(stream);
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, revoked_may_still_split) {
  ncclComm_t comm = t.NewWorld();
  NCCL_OK(t, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  t.Settle(comm);
  t.Barrier();
  ncclComm_t child = nullptr;
  NCCL_OK(t, ncclCommSplit(comm, 0, t.rank(), &child, nullptr));
  t.TakeOwnership(child);
  Works(t, child);
  t.Destroy(child);
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, revoked_may_still_shrink, .min_ranks = 2) {
  ncclComm_t comm = t.NewWorld();
  NCCL_OK(t, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  t.Settle(comm);
  t.Barrier();
  if (!t.is_root()) {
    int excluded[] = {0};
    ncclComm_t child = nullptr;
    NCCL_OK(t, ncclCommShrink(comm, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    t.TakeOwnership(child);
    Works(t, child, t.rank() - 1, t.size() - 1);
    t.Destroy(child);
  }
  t.Barrier();
  t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, revoke_takes_no_flags_and_acts_once) {
  ncclComm_t comm = t.NewWorld();
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommRevoke(comm, 1));
  NCCL_OK(t, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  t.Settle(comm);
  t.Destroy(comm);
}

// NCCL has it since 2.29. No work is posted while suspended; earlier work is done.
CONFORMANCE_TEST(life_cycle, suspended_and_resumed) {
  constexpr int kSuspendMemory = 1;
  constexpr int kSuspended = 1;  // of ncclCommMemStats
  const auto suspend =
      reinterpret_cast<ncclResult_t (*)(ncclComm_t, int)>(FindFunction("ncclCommSuspend"));
  const auto resume =
      reinterpret_cast<ncclResult_t (*)(ncclComm_t)>(FindFunction("ncclCommResume"));
  const auto stats = reinterpret_cast<ncclResult_t (*)(ncclComm_t, int, uint64_t*)>(
      FindFunction("ncclCommMemStats"));
  if (suspend == nullptr || resume == nullptr || stats == nullptr) {
    t.Skip("the library has no ncclCommSuspend");
    return;
  }
  ncclComm_t comm = t.NewWorld();
  for (int round = 0; round < 3; ++round) {
    uint64_t suspended = 7;
    Works(t, comm);
    NCCL_OK(t, suspend(comm, kSuspendMemory));
    NCCL_OK(t, stats(comm, kSuspended, &suspended));
    t.ExpectEqual(uint64_t{1}, suspended, "ncclCommMemStats' suspended value");
    if (round > 0) t.Barrier();  // otherwise one rank may be suspended while another works again
    NCCL_OK(t, resume(comm));
    NCCL_OK(t, stats(comm, kSuspended, &suspended));
    t.ExpectEqual(uint64_t{0}, suspended, "ncclCommMemStats' suspended value");
  }
  Works(t, comm);
  t.Destroy(comm);
}

// As PyTorch's watchdog does continuously, while another thread works.
CONFORMANCE_TEST(life_cycle, async_error_may_be_read_by_another_thread) {
  ncclComm_t comm = t.World();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> asked{0};
  std::thread watchdog([&] {
    while (!stop) {
      ncclResult_t state = ncclInternalError;
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess) ++wrong;
      ++asked;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  for (int i = 0; i < 20; ++i) Works(t, comm);
  t.Until([&] { return asked > 100; }, "the watchdog to ask a hundred times");
  stop = true;
  watchdog.join();
  t.ExpectEqual(0, wrong.load(), "results that were not ncclSuccess");
}

CONFORMANCE_TEST(life_cycle, many_communicators_at_once) {
  constexpr int kMany = 100;
  std::vector<ncclComm_t> comms;
  for (int i = 0; t.ok() && i < kMany; ++i) comms.push_back(t.NewWorld());
  for (int i = 0; t.ok() && i < kMany; i += 9) Works(t, comms[i]);
  for (ncclComm_t comm : comms) t.Destroy(comm);
}

CONFORMANCE_TEST(life_cycle, repeated_create_and_destroy) {
  for (int i = 0; t.ok() && i < 30; ++i) {
    ncclComm_t comm = t.NewWorld();
    Works(t, comm);
    t.Destroy(comm);
  }
}

CONFORMANCE_TEST(life_cycle, a_communicator_of_one) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  NCCL_OK(t, ncclGetUniqueId(&id));
  NCCL_OK(t, ncclCommInitRank(&comm, 1, id, 0));
  t.TakeOwnership(comm);
  const Group alone{comm, 0, 1, t.NewStream()};
  CallBuffers buffers(&t, 4096);
  for (const Collective& collective : Collectives()) {
    for (bool in_place : {false, true}) {
      if (in_place && !collective.has_in_place) continue;
      buffers.Check({collective.kind, &TypeOf(ncclFloat32), ncclAvg, 1000, 0}, {in_place, 0}, alone,
                    7);
    }
  }
  t.Destroy(comm);
}

// A communicator keeps the device that is current at init.
CONFORMANCE_TEST(life_cycle, the_device_is_the_current_one_at_init) {
  ncclComm_t comm = t.NewWorld();
  const int other = (t.self().device + 1) % t.self().visible_devices;
  CUDA_OK(t, cudaSetDevice(other));
  int device = -1;
  NCCL_OK(t, ncclCommCuDevice(comm, &device));
  t.ExpectEqual(t.self().device, device, "ncclCommCuDevice after another device became current");
  CUDA_OK(t, cudaSetDevice(t.self().device));
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  CUDA_OK(t, cudaSetDevice(other));
  NCCL_OK(t, SumInto(buffers, comm, stream));
  int current = -1;
  CUDA_OK(t, cudaGetDevice(&current));
  t.ExpectEqual(other, current, "the current device after a call");
  CUDA_OK(t, cudaSetDevice(t.self().device));
  buffers.receive.Expect(t.size(), "the sum");
  t.Destroy(comm);
}

}  // namespace life_cycle_tests
}  // namespace conformance
