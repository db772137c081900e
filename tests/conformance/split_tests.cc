// Communicators derived from others: split and shrink.
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace split_tests {

constexpr size_t kCount = 10'000;

ncclComm_t Split(Test& t, ncclComm_t parent, int color, int key, ncclConfig_t* config = nullptr) {
  ncclComm_t child = nullptr;
  NCCL_OK(t, ncclCommSplit(parent, color, key, &child, config));
  return t.TakeOwnership(child);
}

void ExpectPlace(Test& t, ncclComm_t comm, int rank, int size,
                 const Location& where = Location::current()) {
  int its_rank = -1;
  int its_size = -1;
  NCCL_OK(t, ncclCommUserRank(comm, &its_rank));
  NCCL_OK(t, ncclCommCount(comm, &its_size));
  t.ExpectEqual(rank, its_rank, "the rank in the new communicator", where);
  t.ExpectEqual(size, its_size, "the size of the new communicator", where);
  Works(t, comm, rank, size, where);
}

CONFORMANCE_TEST(split, one_color_keeps_everybody) {
  ncclComm_t child = Split(t, t.World(), 7, t.rank());
  ExpectPlace(t, child, t.rank(), t.size());
  t.Destroy(child);
}

CONFORMANCE_TEST(split, colors_make_communicators_of_their_own, .min_ranks = 2) {
  const int color = t.rank() % 2;
  ncclComm_t child = Split(t, t.World(), color, t.rank());
  ExpectPlace(t, child, t.rank() / 2, (t.size() + 1 - color) / 2);
  Works(t, t.World());
  t.Destroy(child);
}

CONFORMANCE_TEST(split, each_rank_alone) {
  ncclComm_t child = Split(t, t.World(), t.rank(), 0);
  ExpectPlace(t, child, 0, 1);
  t.Destroy(child);
}

CONFORMANCE_TEST(split, keys_order_the_ranks) {
  ncclComm_t child = Split(t, t.World(), 0, -t.rank());
  ExpectPlace(t, child, t.size() - 1 - t.rank(), t.size());
  // Checks the order itself: the last listed rank receives what rank 0 of the child sends.
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(t.rank());
  NCCL_OK(t, ncclBroadcast(buffers.send.data(), buffers.receive.data(), kCount, ncclInt32, 0, child,
                           stream));
  buffers.receive.Expect(t.size() - 1, "the data that the child's rank 0 sent");
  t.Destroy(child);
}

CONFORMANCE_TEST(split, equal_keys_keep_the_parents_order) {
  ncclComm_t child = Split(t, t.World(), 0, 5);
  ExpectPlace(t, child, t.rank(), t.size());
  t.Destroy(child);
}

CONFORMANCE_TEST(split, no_color_takes_part_and_gets_null, .min_ranks = 2) {
  ncclComm_t parent = t.World();
  if (t.is_root()) {
    auto* child = reinterpret_cast<ncclComm_t>(1);
    NCCL_OK(t, ncclCommSplit(parent, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr));
    EXPECT_THAT(t, child == nullptr, "a null communicator for NCCL_SPLIT_NOCOLOR");
  } else {
    ncclComm_t child = Split(t, parent, 0, t.rank());
    ExpectPlace(t, child, t.rank() - 1, t.size() - 1);
    t.Destroy(child);
  }
  Works(t, parent);
}

CONFORMANCE_TEST(split, no_color_for_all) {
  auto* child = reinterpret_cast<ncclComm_t>(1);
  NCCL_OK(t, ncclCommSplit(t.World(), NCCL_SPLIT_NOCOLOR, 0, &child, nullptr));
  EXPECT_THAT(t, child == nullptr, "a null communicator for NCCL_SPLIT_NOCOLOR");
  Works(t, t.World());
}

CONFORMANCE_TEST(split, a_child_outlives_its_parent) {
  ncclComm_t parent = t.NewWorld();
  ncclComm_t child = Split(t, parent, 0, t.rank());
  t.Destroy(parent);
  Works(t, child);
  t.Destroy(child);
}

CONFORMANCE_TEST(split, children_of_children, .min_ranks = 2) {
  ncclComm_t child = Split(t, t.World(), 0, t.rank());
  ncclComm_t grandchild = Split(t, child, t.rank() % 2, t.rank());
  ExpectPlace(t, grandchild, t.rank() / 2, (t.size() + 1 - t.rank() % 2) / 2);
  t.Destroy(grandchild);
  t.Destroy(child);
}

CONFORMANCE_TEST(split, parent_and_child_work_at_the_same_time) {
  ncclComm_t parent = t.World();
  ncclComm_t child = Split(t, parent, 0, -t.rank());
  cudaStream_t streams[] = {t.NewStream(), t.NewStream()};
  IntBuffers first(t, kCount, streams[0]);
  IntBuffers second(t, kCount, streams[1]);
  first.send.Fill(1);
  second.send.Fill(2);
  for (int i = 0; t.ok() && i < 10; ++i) {
    NCCL_OK(t, SumInto(first, parent, streams[0]));
    NCCL_OK(t, SumInto(second, child, streams[1]));
  }
  first.receive.Expect(t.size(), "the parent's sum");
  second.receive.Expect(2 * t.size(), "the child's sum");
  t.Destroy(child);
}

// blocking = 0 is inherited: the child's init and its calls may return ncclInProgress.
CONFORMANCE_TEST(split, no_config_inherits_the_parents) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = t.SharedId();
  ncclComm_t parent = nullptr;
  if (t.ok()) ncclCommInitRankConfig(&parent, t.size(), id, t.rank(), &config);
  t.TakeOwnership(parent);
  t.Settle(parent);
  ncclComm_t child = nullptr;
  ncclResult_t result = t.ok() ? ncclCommSplit(parent, 0, t.rank(), &child, nullptr) : ncclSuccess;
  EXPECT_THAT(t, result == ncclSuccess || result == ncclInProgress,
              "ncclSuccess or ncclInProgress of a non-blocking split");
  t.Settle(parent);
  t.Until([&] { return child != nullptr; }, "the child of a non-blocking split");
  t.TakeOwnership(child);
  t.Settle(child);
  // On a blocking communicator this call would return only when all ranks have made it.
  if (t.ok() && !t.is_root()) ncclCommFinalize(child);
  t.Barrier();
  if (t.ok() && t.is_root()) ncclCommFinalize(child);
  t.Settle(child);
  t.Destroy(child);
  t.Destroy(parent);
}

CONFORMANCE_TEST(split, a_config_of_its_own) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::string name = "child";
  config.commName = name.c_str();
  config.splitShare = 1;
  ncclComm_t child = Split(t, t.World(), 0, t.rank(), &config);
  name = "gone";
  ExpectPlace(t, child, t.rank(), t.size());
  t.Destroy(child);
}

// Only the remaining ranks call it.
CONFORMANCE_TEST(shrink, fills_the_gaps, .min_ranks = 2) {
  ncclComm_t parent = t.NewWorld();
  const int gone = t.size() / 2;
  if (t.rank() != gone) {
    int excluded[] = {gone};
    ncclComm_t child = nullptr;
    NCCL_OK(t, ncclCommShrink(parent, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    t.TakeOwnership(child);
    ExpectPlace(t, child, t.rank() - (t.rank() > gone ? 1 : 0), t.size() - 1);
    t.Destroy(child);
  }
  t.Barrier();
  Works(t, parent);
  t.Destroy(parent);
}

CONFORMANCE_TEST(shrink, to_one, .min_ranks = 2) {
  ncclComm_t parent = t.NewWorld();
  if (t.is_root()) {
    std::vector<int> excluded;
    // The list may be in any order.
    for (int rank = t.size() - 1; rank > 0; --rank) excluded.push_back(rank);
    ncclComm_t child = nullptr;
    NCCL_OK(t, ncclCommShrink(parent, excluded.data(), t.size() - 1, &child, nullptr,
                              NCCL_SHRINK_DEFAULT));
    t.TakeOwnership(child);
    ExpectPlace(t, child, 0, 1);
    t.Destroy(child);
  }
  t.Barrier();
  t.Destroy(parent);
}

// Rank 0 has left during an operation, as if its process had died.
CONFORMANCE_TEST(shrink, with_abort_flushes_first, .min_ranks = 2) {
  ncclComm_t parent = t.NewWorld();
  cudaStream_t stream = t.NewStream();
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  if (!t.is_root()) {
    NCCL_OK(t, SumInto(buffers, parent, stream));
    t.ExpectBusy(stream, "rank 0 does not call");
  }
  t.Barrier();  // the first rank that shrinks releases the streams of all
  if (!t.is_root()) {
    int excluded[] = {0};
    ncclComm_t child = nullptr;
    NCCL_OK(t, ncclCommShrink(parent, excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    t.TakeOwnership(child);
    t.Wait(stream);
    ExpectPlace(t, child, t.rank() - 1, t.size() - 1);
    t.Destroy(child);
  }
  t.Barrier();
  t.Abort(parent);
}

CONFORMANCE_TEST(shrink, of_nobody_is_invalid_argument) {
  ncclComm_t child = nullptr;
  int excluded[] = {0};
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommShrink(t.World(), excluded, 0, &child, nullptr, NCCL_SHRINK_DEFAULT));
  Works(t, t.World());
}

CONFORMANCE_TEST(shrink, who_is_excluded_must_not_call) {
  ncclComm_t child = nullptr;
  int excluded[] = {t.rank()};
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommShrink(t.World(), excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  Works(t, t.World());
}

}  // namespace split_tests
}  // namespace conformance
