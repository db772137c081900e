// Registrations and windows, and the variables that affect calls: NCCL_CHECK_POINTERS and
// CUDA_LAUNCH_BLOCKING.
#include <limits>
#include <utility>

#include "tests/unit/shim/shim_fixture.h"

extern "C" ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** pointer);

namespace mccs {
namespace registration_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class RegistrationTest : public ShimTest {
 protected:
  RegistrationTest() {
    MakeRanks(2);
    data_ = Buffer<int>({1, 2, 3, 4});
  }
  int* data_;
};

TEST_F(RegistrationTest, HandlesAreOpaqueAndDeregisteredOnce) {
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 16, &first), ncclSuccess);
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 16, &second), ncclSuccess);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(ncclCommDeregister(comms_[1], first), ncclInvalidArgument);  // another communicator's
  EXPECT_EQ(ncclCommDeregister(comms_[0], first), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comms_[0], first), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDeregister(comms_[0], second), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(nullptr, nullptr), ncclInvalidArgument);
}

TEST_F(RegistrationTest, RegisteredMemoryMayBeFreedBeforeDeregistration) {
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 16, &handle), ncclSuccess);
  test_cuda::Free(data_);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclSuccess);
}

TEST_F(RegistrationTest, WindowReturnsItsBuffer) {
  ncclWindow_t window = nullptr;
  void* pointer = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_ + 1, 12, &window, NCCL_WIN_COLL_SYMMETRIC),
            ncclSuccess);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(ncclWinGetUserPtr(comms_[0], window, &pointer), ncclSuccess);
  EXPECT_EQ(pointer, data_ + 1);
  EXPECT_EQ(ncclWinGetUserPtr(comms_[1], window, &pointer), ncclInvalidArgument);
  EXPECT_EQ(ncclWinGetUserPtr(comms_[0], window, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclWinGetUserPtr(nullptr, window, &pointer), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDeregister(comms_[0], window), ncclInvalidArgument);  // not a buffer's handle
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], window), ncclSuccess);
  EXPECT_EQ(ncclWinGetUserPtr(comms_[0], window, &pointer), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], window), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], nullptr), ncclSuccess);
}

TEST_F(RegistrationTest, WindowsAreSentToTheDaemon) {
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_, 16, &window, 0), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterWindow), 1);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], window), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kDeregisterWindow), 1);
}

TEST_F(RegistrationTest, WindowFailsIfTheDaemonRejectsItsMemory) {
  ncclWindow_t window = nullptr;
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_, 16, &window, 0), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("rejected by the fake"));
  EXPECT_EQ(window, nullptr);
}

// The n-th window of this rank is the n-th of the other ranks, whose registrations may have
// succeeded.
TEST_F(RegistrationTest, FailedRegistrationUsesItsNumber) {
  ncclWindow_t window = nullptr;
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_NE(ncclCommWindowRegister(comms_[0], data_, 16, &window, 0), ncclSuccess);
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
  daemon_.FailWindowsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_NE(ncclCommWindowRegister(comms_[0], data_, 12, &window, 0), ncclSuccess);
  EXPECT_EQ(window, nullptr);
  daemon_.FailWindowsWith(wire::ErrorClass::kNone);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_, 8, &window, 0), ncclSuccess);
  std::vector<std::pair<uint64_t, uint64_t>> numbers_and_bytes;
  for (const wire::RegisterWindow& window : daemon_.Windows()) {
    numbers_and_bytes.emplace_back(window.number, window.bytes);
  }
  EXPECT_THAT(numbers_and_bytes, ElementsAre(Pair(1, 0), Pair(2, 12), Pair(3, 8)));
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kDeregisterWindow), 1)
      << "#2, in case it is still opened";
}

TEST_F(RegistrationTest, ErrorsNameInvalidArguments) {
  void* handle = nullptr;
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommRegister(nullptr, data_, 16, &handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comms_[0], nullptr, 16, &handle), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("ncclCommRegister: buff is NULL"));
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 0, &handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 16, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, std::numeric_limits<size_t>::max(), &handle),
            ncclInvalidArgument);
  int on_the_stack[4] = {};
  EXPECT_EQ(ncclCommRegister(comms_[0], on_the_stack, 16, &handle), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("is not CUDA memory"));
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], on_the_stack, 16, &window, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_, 16, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(window, nullptr);
}

class CallVariables : public ShimTest {
 protected:
  ~CallVariables() override {
    unsetenv("NCCL_CHECK_POINTERS");
    unsetenv("CUDA_LAUNCH_BLOCKING");
  }
};

TEST_F(CallVariables, CheckPointersRejectsMemoryOfAnotherDevice) {
  setenv("NCCL_CHECK_POINTERS", "1", 1);
  MakeRanks(2);
  test_cuda::SetDevice(1);
  int* elsewhere = Buffer<int>({1, 2});
  test_cuda::SetDevice(0);
  EXPECT_EQ(ncclAllReduce(elsewhere, elsewhere, 2, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(),
              AllOf(HasSubstr("memory of CUDA device 1"), HasSubstr("NCCL_CHECK_POINTERS")));
}

TEST_F(CallVariables, LaunchBlockingReturnsWhenTheWorkIsComplete) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  MakeRanks(2);
  int* first = Buffer<int>({1});
  int* second = Buffer<int>({2});
  ncclGroupStart();
  ncclAllReduce(first, first, 1, ncclInt, ncclSum, comms_[0], Stream());
  ncclAllReduce(second, second, 1, ncclInt, ncclSum, comms_[1], Stream());
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_EQ(*first, 3);
  EXPECT_EQ(*second, 3);
}

class LastErrors : public ShimTest {};

TEST_F(LastErrors, NamesRankCauseAndRemedy) {
  MakeRanks(2);
  daemon_.FailRank(1, wire::ErrorClass::kRemote, "host h1 left");
  ncclResult_t error = ncclSuccess;
  while (ncclCommGetAsyncError(comms_[1], &error) == ncclSuccess && error == ncclSuccess) {
  }
  EXPECT_EQ(error, ncclRemoteError);
  EXPECT_THAT(LastError(comms_[1]), AllOf(HasSubstr("rank 1 of 2 (CUDA device 1): host h1 left"),
                                          HasSubstr("ncclCommAbort")));
}

}  // namespace registration_test
}  // namespace mccs
