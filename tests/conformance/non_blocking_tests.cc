// Communicators with blocking = 0: calls return at once, ncclCommGetAsyncError returns the result.
#include <algorithm>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace non_blocking_tests {

constexpr size_t kCount = 10'000;

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Accepts ncclInProgress: a call on a non-blocking communicator may still be in progress.
bool IsSuccessOrInProgress(Test& t, ncclResult_t result, const char* call,
                           const Location& where = Location::current()) {
  return t.ok() && (result == ncclInProgress || t.ExpectResult(ncclSuccess, result, call, where));
}

ncclComm_t NewWorld(Test& t) {
  if (!t.ok()) return nullptr;
  const ncclUniqueId id = t.SharedId();
  ncclConfig_t config = NonBlocking();
  ncclComm_t comm = nullptr;
  if (!t.ok()) return nullptr;
  IsSuccessOrInProgress(t, ncclCommInitRankConfig(&comm, t.size(), id, t.rank(), &config),
                        "ncclCommInitRankConfig");
  EXPECT_THAT(t, comm != nullptr, "a communicator at once from a non-blocking init");
  t.TakeOwnership(comm);
  t.Settle(comm);
  return comm;
}

bool SumWorks(Test& t, ncclComm_t comm) {
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  if (!t.ok()) return false;
  IsSuccessOrInProgress(t, SumInto(buffers, comm, stream), "ncclAllReduce");
  return t.Settle(comm) && buffers.receive.Expect(t.size(), "the sum");
}

CONFORMANCE_TEST(non_blocking, init_settles_and_collectives_work) {
  ncclComm_t comm = NewWorld(t);
  SumWorks(t, comm);
  SumWorks(t, comm);
  t.Destroy(comm);
}

// The last rank joins only after the others have checked their state.
CONFORMANCE_TEST(non_blocking, init_returns_while_others_are_missing, .min_ranks = 2) {
  const ncclUniqueId id = t.SharedId();
  ncclConfig_t config = NonBlocking();
  ncclComm_t comm = nullptr;
  const bool late = t.rank() == t.size() - 1;
  const auto init = [&] {
    if (!t.ok()) return;
    IsSuccessOrInProgress(t, ncclCommInitRankConfig(&comm, t.size(), id, t.rank(), &config),
                          "ncclCommInitRankConfig");
    t.TakeOwnership(comm);
  };
  if (!late) {
    init();
    ncclResult_t state = ncclSuccess;
    NCCL_OK(t, ncclCommGetAsyncError(comm, &state));
    t.ExpectEqual(ncclInProgress, state, "the state while a rank is missing");
  }
  t.Barrier();
  if (late) init();
  t.Settle(comm);
  SumWorks(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(non_blocking, use_before_it_is_ready_is_invalid_argument, .min_ranks = 2) {
  const ncclUniqueId id = t.SharedId();
  ncclConfig_t config = NonBlocking();
  ncclComm_t comm = nullptr;
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  if (!t.is_root() && t.ok()) {
    IsSuccessOrInProgress(t, ncclCommInitRankConfig(&comm, t.size(), id, t.rank(), &config),
                          "ncclCommInitRankConfig");
    t.TakeOwnership(comm);
    int count = 0;
    NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCount(comm, &count));
    NCCL_RETURNS(t, ncclInvalidArgument, SumInto(buffers, comm, stream));
  }
  t.Barrier();
  // NCCL leaves the state undefined of a communicator that was used too early: it is aborted.
  t.Abort(comm);
  Works(t, t.World());
}

CONFORMANCE_TEST(non_blocking, abort_during_init, .min_ranks = 2) {
  const ncclUniqueId id = t.SharedId();
  ncclConfig_t config = NonBlocking();
  if (!t.is_root() && t.ok()) {
    ncclComm_t comm = nullptr;
    IsSuccessOrInProgress(t, ncclCommInitRankConfig(&comm, t.size(), id, t.rank(), &config),
                          "ncclCommInitRankConfig");
    NCCL_OK(t, ncclCommAbort(comm));
  }
  t.Barrier();
  Works(t, t.World());
}

CONFORMANCE_TEST(non_blocking, finalize_settles) {
  ncclComm_t comm = NewWorld(t);
  SumWorks(t, comm);
  if (t.ok()) IsSuccessOrInProgress(t, ncclCommFinalize(comm), "ncclCommFinalize");
  t.Settle(comm);
  t.Destroy(comm);
}

// No one polls the finalize; meanwhile new communicators may reuse its resources.
CONFORMANCE_TEST(non_blocking, abort_after_finalize_affects_no_other) {
  constexpr int kLater = 3;
  for (int i = 0; t.ok() && i < 5; ++i) {
    ncclComm_t finalized = NewWorld(t);
    if (t.ok()) IsSuccessOrInProgress(t, ncclCommFinalize(finalized), "ncclCommFinalize");
    ncclComm_t later[kLater] = {};
    for (ncclComm_t& comm : later) comm = t.NewWorld();
    t.Abort(finalized);
    t.Barrier();
    for (ncclComm_t comm : later) {
      Works(t, comm);
      t.Destroy(comm);
    }
  }
}

CONFORMANCE_TEST(non_blocking, a_group_may_end_in_progress) {
  ncclComm_t comm = NewWorld(t);
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  NCCL_OK(t, ncclGroupStart());
  if (t.ok()) {
    IsSuccessOrInProgress(t, SumInto(buffers, comm, stream), "ncclAllReduce");
  }
  if (t.ok()) IsSuccessOrInProgress(t, ncclGroupEnd(), "ncclGroupEnd");
  t.Settle(comm);
  buffers.receive.Expect(t.size(), "the sum");
  t.Destroy(comm);
}

CONFORMANCE_TEST(non_blocking, split_sets_the_child_at_once_and_settles) {
  ncclComm_t comm = NewWorld(t);
  ncclComm_t child = nullptr;
  if (t.ok())
    IsSuccessOrInProgress(t, ncclCommSplit(comm, 0, t.rank(), &child, nullptr), "ncclCommSplit");
  t.Settle(comm);
  t.Until([&] { return child != nullptr; }, "the child of a non-blocking split");
  t.TakeOwnership(child);
  t.Settle(child);
  SumWorks(t, child);
  t.Destroy(child);
  t.Destroy(comm);
}

// Calls that create communicators cannot block for some communicators and not for others.
CONFORMANCE_TEST(non_blocking, jobs_of_both_kinds_do_not_mix_in_a_group) {
  ncclComm_t blocking = t.NewWorld();
  ncclComm_t comm = NewWorld(t);
  // Not on the stack: a library that accepts the mixture writes them later.
  auto* children = reinterpret_cast<ncclComm_t*>(t.NewHostMemory(2 * sizeof(ncclComm_t)));
  std::fill_n(children, 2, nullptr);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclCommSplit(blocking, 0, t.rank(), &children[0], nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommSplit(comm, 0, t.rank(), &children[1], nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGroupEnd());
}

}  // namespace non_blocking_tests
}  // namespace conformance
