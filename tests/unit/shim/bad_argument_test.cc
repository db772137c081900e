// Invalid arguments: the caller gets an error at once and an error message, and the program
// continues.
#include <limits>

#include "tests/unit/shim/shim_fixture.h"

// Of the device API; some headers lack it, and it ignores its arguments.
extern "C" ncclResult_t ncclGetLsaDevicePointer();

namespace mccs {
namespace bad_argument_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadArguments : public ShimTest {
 protected:
  BadArguments() {
    MakeRanks(2);
    data_ = Buffer<int>({1, 2, 3, 4});
  }
  ~BadArguments() override {
    // The communicators still work afterwards.
    ncclGroupStart();
    for (ncclComm_t comm : comms_) {
      int* data = Buffer<int>({1});
      EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(test_cuda::Synchronize(nullptr));
  }

  ncclResult_t AllReduce(const void* send, void* recv, size_t count, int type = ncclInt,
                         int op = ncclSum) {
    return ncclAllReduce(send, recv, count, static_cast<ncclDataType_t>(type),
                         static_cast<ncclRedOp_t>(op), comms_[0], nullptr);
  }

  int* data_;
};

TEST_F(BadArguments, TypeAndOperatorOutOfRange) {
  for (int type : {-1, 12, 1000}) {
    EXPECT_EQ(AllReduce(data_, data_, 1, type), ncclInvalidArgument) << type;
    EXPECT_THAT(LastError(), AllOf(HasSubstr("ncclAllReduce"), HasSubstr(std::to_string(type))));
  }
  for (int op : {-1, 5, 77}) {
    EXPECT_EQ(AllReduce(data_, data_, 1, ncclInt, op), ncclInvalidArgument) << op;
  }
}

TEST_F(BadArguments, RootOutOfRange) {
  for (int root : {-1, 2}) {
    EXPECT_EQ(ncclBroadcast(data_, data_, 1, ncclInt, root, comms_[0], nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclBcast(data_, 1, ncclInt, root, comms_[0], nullptr), ncclInvalidArgument);
    EXPECT_THAT(LastError(), HasSubstr("ncclBcast"));
  }
}

TEST_F(BadArguments, NullBuffers) {
  EXPECT_EQ(AllReduce(nullptr, data_, 1), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("sendbuff is NULL"));
  EXPECT_EQ(AllReduce(data_, nullptr, 1), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("recvbuff is NULL"));
}

TEST_F(BadArguments, NullCommunicator) {
  EXPECT_EQ(ncclAllReduce(data_, data_, 1, ncclInt, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("comm is NULL"));
}

TEST_F(BadArguments, RangeExceedsItsAllocation) {
  EXPECT_EQ(AllReduce(data_, data_, 5), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("ncclAllReduce"), HasSubstr("sendbuff"),
                                 HasSubstr("+ 20 bytes"), HasSubstr("16 bytes from")));
  EXPECT_EQ(AllReduce(data_ + 1, data_, 4), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(data_, data_ + 3, 2), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("recvbuff"));
  // The check covers the whole buffer: 2 ranks × 3 elements.
  EXPECT_EQ(ncclAllGather(data_, data_, 3, ncclInt, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("recvbuff"));
  EXPECT_EQ(ncclReduceScatter(data_, data_, 3, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("sendbuff"));
}

TEST_F(BadArguments, CountOverflows) {
  for (size_t count : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 4,
                       std::numeric_limits<size_t>::max() / 8 + 1}) {
    EXPECT_EQ(AllReduce(data_, data_, count), ncclInvalidArgument) << count;
    EXPECT_EQ(ncclAllGather(data_, data_, count, ncclInt, comms_[0], nullptr), ncclInvalidArgument);
  }
}

TEST_F(BadArguments, FreedAndUnknownMemory) {
  int on_the_stack[4] = {};
  EXPECT_EQ(AllReduce(on_the_stack, data_, 1), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("is not CUDA memory"));
  int* freed = Buffer<int>({1});
  test_cuda::Free(freed);
  EXPECT_EQ(AllReduce(freed, data_, 1), ncclInvalidArgument);
}

TEST_F(BadArguments, RejectsAnInvalidCapture) {
  const CUstream stream = Stream();
  test_cuda::BeginCapture(stream);
  EXPECT_NE(cuStreamSynchronize(stream), CUDA_SUCCESS) << "which invalidates the capture";
  EXPECT_EQ(ncclAllReduce(data_, data_, 1, ncclInt, ncclSum, comms_[0], stream),
            ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), HasSubstr("invalidated"));
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(BadArguments, ReportsCudaErrorsOfTheStream) {
  test_cuda::Fail("cuStreamWriteValue64", CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(AllReduce(data_, data_, 1), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), HasSubstr("CUDA_ERROR"));
  test_cuda::Fail("cuStreamWriteValue64", CUDA_SUCCESS);
}

TEST_F(BadArguments, ReportsTheDaemonsRejectionOfABuffer) {
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidArgument);
  EXPECT_EQ(AllReduce(data_, data_, 1), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("rejected by the fake"));
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
}

TEST_F(BadArguments, RegistrationsAreOpaqueAndChecked) {
  void* handle = nullptr;
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommRegister(comms_[0], data_, 16, &handle), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], data_, 16, &window, 0), ncclSuccess);
  EXPECT_NE(handle, nullptr);
  EXPECT_NE(window, nullptr);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], window), ncclSuccess);
  EXPECT_EQ(ncclCommRegister(nullptr, data_, 16, &handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comms_[0], nullptr, 16, &handle), ncclInvalidArgument);
}

TEST_F(BadArguments, ErrorMessagesBelongToTheirThread) {
  EXPECT_EQ(AllReduce(nullptr, data_, 1), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("sendbuff is NULL"));
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  EXPECT_THAT(ncclGetErrorString(ncclInvalidArgument), HasSubstr("invalid argument"));
  EXPECT_THAT(ncclGetErrorString(static_cast<ncclResult_t>(99)), HasSubstr("unknown"));
}

void SetDebug(const char* level) {
  setenv("NCCL_DEBUG", level, 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ncclResetDebugInit();
#pragma GCC diagnostic pop
}

// A program may replace ncclGetLastError (nccl-tests does), so the reason is also logged.
TEST_F(BadArguments, WarnLogsAnUnsupportedFunctionOnceOnStderr) {
  const auto reject = [&] {
    testing::internal::CaptureStderr();
    EXPECT_EQ(ncclGetLsaDevicePointer(), ncclInvalidUsage);
    return testing::internal::GetCapturedStderr();
  };
  SetDebug("VERSION");
  EXPECT_EQ(reject(), "");
  SetDebug("WARN");
  EXPECT_THAT(reject(), HasSubstr("MCCS WARN ncclGetLsaDevicePointer is not supported"));
  EXPECT_EQ(reject(), "");  // otherwise a training loop would fill the terminal
  EXPECT_THAT(LastError(), HasSubstr("ncclGetLsaDevicePointer is not supported"));
  SetDebug("");
}

}  // namespace bad_argument_test
}  // namespace mccs
