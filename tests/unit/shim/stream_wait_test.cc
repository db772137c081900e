// How streams wait for the daemon: by a memory operation, or by a kernel, which does not block the
// hardware queue.
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace stream_wait_test {

using test_cuda::Enqueued;
using test_cuda::Synchronize;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamWaitTest : public ShimTest {
 protected:
  ~StreamWaitTest() override { unsetenv("MCCS_STREAM_WAIT"); }

  static void Set(const char* name, const char* value) { setenv(name, value, 1); }

  // Returns the items that one all-reduce of a single rank queues, and checks its result.
  void RunOne(std::vector<Enqueued>* queued) {
    MakeRanks(1);
    const CUstream stream = Stream();
    int* data = Buffer<int>({7});
    int* sum = Buffer<int>({0});
    ASSERT_EQ(ncclAllReduce(data, sum, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess)
        << LastError();
    *queued = test_cuda::EnqueuedOn(stream);
    ASSERT_TRUE(Synchronize(stream));
    EXPECT_THAT(Read(sum, 1), ElementsAre(7));
  }
  bool WaitsByKernel() {
    std::vector<Enqueued> queued;
    RunOne(&queued);
    EXPECT_EQ(queued.size(), 2u);
    EXPECT_EQ(queued.front().kind, Enqueued::kWrite);
    EXPECT_EQ(queued.back().kind, Enqueued::kWait);
    return queued.back().by_kernel;
  }
};

TEST_F(StreamWaitTest, UsesAKernelByDefault) {
  const int before = test_cuda::kernels_prepared();
  EXPECT_TRUE(WaitsByKernel());
  EXPECT_EQ(test_cuda::kernels_prepared(), before + 1) << "loaded at init, not at the first launch";
}

TEST_F(StreamWaitTest, UsesAMemoryOperationOnRequest) {
  Set("MCCS_STREAM_WAIT", "memop");
  const int before = test_cuda::kernels_prepared();
  EXPECT_FALSE(WaitsByKernel());
  EXPECT_EQ(test_cuda::kernels_prepared(), before);
}

TEST_F(StreamWaitTest, CapturedCallsUseTheSameMethod) {
  MakeRanks(1);
  const CUstream stream = Stream();
  int* data = Buffer<int>({7});
  int* sum = Buffer<int>({0});
  test_cuda::BeginCapture(stream);
  ASSERT_EQ(ncclAllReduce(data, sum, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
  const CUgraph graph = test_cuda::EndCapture(stream);
  EXPECT_TRUE(test_cuda::EnqueuedOn(stream).back().by_kernel);
  test_cuda::Launch(graph, stream);
  ASSERT_TRUE(Synchronize(stream));
  EXPECT_THAT(Read(sum, 1), ElementsAre(7));
  test_cuda::DestroyGraph(graph);
}

// A kernel would take turns with those of the process that runs the calls.
TEST_F(StreamWaitTest, ARankWhoseGpuAnotherProcessUsesLaunchesNoKernel) {
  daemon_.SetKernelUse(wire::KernelRole::kSharesWithOther);
  const int before = test_cuda::kernels_prepared();
  EXPECT_FALSE(WaitsByKernel());
  EXPECT_EQ(test_cuda::kernels_prepared(), before);
}

TEST_F(StreamWaitTest, ARankWhoseOwnProcessRunsTheCallsWaitsByTheLightKernel) {
  daemon_.SetKernelUse(wire::KernelRole::kSharesWithProcess);
  EXPECT_TRUE(WaitsByKernel());
}

TEST_F(StreamWaitTest, InitRejectsAnInvalidMethod) {
  Set("MCCS_STREAM_WAIT", "sometimes");
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("MCCS_STREAM_WAIT 'sometimes'"), HasSubstr("memop")));
}

TEST_F(StreamWaitTest, ReportsAGpuThatCannotLoadTheKernel) {
  test_cuda::Fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(),
              AllOf(HasSubstr("cuLibraryLoadData"), HasSubstr("MCCS_STREAM_WAIT=memop")));
}

}  // namespace stream_wait_test
}  // namespace mccs
