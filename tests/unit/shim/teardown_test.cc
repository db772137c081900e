// Unusual ends: a group that fails while communicators are being destroyed, a thread that ends
// within a group, calls while the process exits.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "shim/process/process.h"
#include "tests/unit/eventually.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace teardown_test {

class Teardown : public ShimTest {
 protected:
  ~Teardown() override { unsetenv("MCCS_EXPORT_LEASE"); }

  // Takes the communicator's handle, which the test will end.
  ncclComm_t TakeHandle(size_t rank) {
    const ncclComm_t comm = comms_[rank];
    comms_[rank] = nullptr;
    return comm;
  }
  static ncclResult_t Sum(int* data, ncclComm_t comm) {
    return ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr);
  }
  int Destroyed() { return daemon_.CountOf(wire::MessageKind::kCommDestroy); }
  int Aborted() { return daemon_.CountOf(wire::MessageKind::kCommAbort); }
};

// ---- Groups that do not complete -------------

TEST_F(Teardown, DestroyInAFailedGroupAborts) {
  MakeRanks(2);
  int* data = Buffer<int>({1});
  ASSERT_EQ(Sum(data, comms_[1]), ncclSuccess);  // waits for rank 0
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(TakeHandle(0)), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclNumOps, comms_[1], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(Aborted(), 1);
  EXPECT_EQ(Destroyed(), 0);
}

TEST_F(Teardown, DestroyInASimulatedGroupDestroys) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  daemon_.HoldRings(true);
  ASSERT_EQ(Sum(data, comms_[0]), ncclSuccess);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(TakeHandle(0)), ncclSuccess);
  daemon_.HoldRings(false);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << LastError();
  EXPECT_EQ(Destroyed(), 1);
  EXPECT_EQ(Aborted(), 0);
}

TEST_F(Teardown, DestroyInAFailedSimulatedGroupAborts) {
  MakeRanks(1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(TakeHandle(0)), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(reinterpret_cast<ncclComm_t>(8)), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(Aborted(), 1);
}

// Also if two code paths of the library reach it; the daemon may have reused the handle.
TEST_F(Teardown, SecondAbortSendsNothing) {
  MakeRanks(1);
  shim::Process::Get().handles().Find(comms_[0])->Abort();
  EXPECT_EQ(ncclCommAbort(TakeHandle(0)), ncclSuccess);
  EXPECT_EQ(Aborted(), 1);
}

// ---- Ends of threads and processes -----

TEST_F(Teardown, ThreadExitInAGroupStopsNoLeases) {
  setenv("MCCS_EXPORT_LEASE", "0.1", 1);
  MakeRanks(1);
  int* data = Buffer<int>({1});
  std::thread([&] {
    ncclGroupStart();
    EXPECT_EQ(Sum(data, comms_[0]), ncclSuccess);
  }).join();
  const auto released = [&] { return daemon_.CountOf(wire::MessageKind::kReleaseBuffer); };
  EXPECT_TRUE(Eventually([&] { return released() > 0; }));
  EXPECT_EQ(released(), 1);
  EXPECT_TRUE(daemon_.RecordsOf(0).empty());
}

TEST_F(Teardown, ThreadExitInAGroupEndsItsDestroys) {
  MakeRanks(1);
  std::thread([&] {
    ncclGroupStart();
    EXPECT_EQ(ncclCommDestroy(TakeHandle(0)), ncclSuccess);
  }).join();
  EXPECT_EQ(Aborted(), 1);
}

// The handle's variable was on the thread's stack.
TEST_F(Teardown, ThreadExitInAGroupCreatesNoCommunicator) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::thread([&] {
    ncclComm_t comm = nullptr;
    ncclGroupStart();
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  }).join();
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommInit), 0);
  MakeRanks(1);
}

// Uses and destroys its communicator when the thread's objects are destroyed.
struct OfAThread {
  ncclComm_t comm = nullptr;
  int* data = nullptr;
  ~OfAThread() {
    if (comm == nullptr) return;
    EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_TRUE(test_cuda::Synchronize(nullptr));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
};
thread_local OfAThread of_a_thread;

TEST_F(Teardown, ThreadLocalDestructorMayCallNccl) {
  MakeRanks(1);
  std::thread([&] {
    of_a_thread.comm =
        TakeHandle(0);  // created before the thread's first call, destroyed after its last
    of_a_thread.data = Buffer<int>({1});
    EXPECT_EQ(Sum(of_a_thread.data, of_a_thread.comm), ncclSuccess);
    EXPECT_TRUE(test_cuda::Synchronize(nullptr));
  }).join();
  EXPECT_EQ(Destroyed(), 1);
}

// State that the program destroys during exit, in atexit functions as in static objects.
std::vector<ncclComm_t> of_the_program;
int* data_of_the_program = nullptr;

void WorkAndDestroyAtExit() {
  int* const data = data_of_the_program;
  bool good = true;
  for (ncclComm_t comm : of_the_program) {
    good = good && ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr) == ncclSuccess;
    good = good && test_cuda::Synchronize(nullptr);
    good = good && ncclCommDestroy(comm) == ncclSuccess;
  }
  _exit(good && of_the_program.size() == 2 ? 0 : 1);
}

TEST_F(Teardown, AtexitFunctionMayCallNccl) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, with a daemon of its own
  const auto exit = [] {
    data_of_the_program = Buffer<int>({1});
    of_the_program.resize(2);
    ncclComm_t first = nullptr;
    for (ncclComm_t& comm : of_the_program) ncclCommInitAll(&comm, 1, nullptr);
    ncclCommInitAll(&first, 1, nullptr);
    ncclCommDestroy(first);
    std::atexit(&WorkAndDestroyAtExit);
    std::exit(2);
  };
  EXPECT_EXIT(exit(), testing::ExitedWithCode(0), "");
}

}  // namespace teardown_test
}  // namespace mccs
