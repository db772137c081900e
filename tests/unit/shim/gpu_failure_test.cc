// Errors of CUDA that are the machine's: each has one line with cause and remedy. A GPU that fails
// ends the communicators on it, and no others.
#include <span>
#include <utility>

#include "base/sealed_file.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace gpu_failure_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GpuFailureTest : public ShimTest {
 protected:
  static ncclResult_t Reduce(ncclComm_t comm) {
    int* data = Buffer<int>({1});
    return ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, Stream());
  }
  // A further communicator of one rank on the current GPU.
  void AddCommunicator() {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << LastError();
    comms_.push_back(comm);
  }
};

TEST_F(GpuFailureTest, FailsTheCommunicatorsOfTheGpuAndNamesIt) {
  MakeRanks(2);  // on GPUs 0 and 1: handles 0 and 1
  test_cuda::SetDevice(0);
  AddCommunicator();  // handle 2
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  const auto names_all =
      AllOf(HasSubstr("GPU 0000:"), HasSubstr("(CUDA device 0) has failed"),
            HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE (214)"), HasSubstr("reset the GPU"));
  EXPECT_THAT(LastError(), names_all);
  ASSERT_TRUE(Eventually([&] { return daemon_.GpuFailures().size() == 2; }));
  for (const wire::GpuFailed& failure : daemon_.GpuFailures()) {
    EXPECT_NE(failure.comm_handle, 1u) << "its GPU works";
    EXPECT_THAT(failure.text, names_all);
  }
}

TEST_F(GpuFailureTest, IsReportedOnce) {
  MakeRanks(1);
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), HasSubstr("compute-sanitizer"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Reduce(comms_[0]), ncclRemoteError) << "it has failed";
  test_cuda::Fail("cuLaunchKernel", CUDA_SUCCESS);
  AddCommunicator();  // Its messages come after the report.
  EXPECT_EQ(daemon_.GpuFailures().size(), 1u);
}

// The daemon would wait for the kernel for as long as the process lives.
TEST_F(GpuFailureTest, ALaunchThatFailsAfterItsCallWasPostedFailsItsCommunicator) {
  MakeRanks(1);       // handle 0
  AddCommunicator();  // handle 1, on the same GPU
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  test_cuda::Fail("cuLaunchKernel", CUDA_SUCCESS);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"),
                                 HasSubstr("free GPU memory")));
  ASSERT_TRUE(Eventually([&] { return daemon_.GpuFailures().size() == 1; }));
  const wire::GpuFailed failure = daemon_.GpuFailures()[0];
  EXPECT_EQ(failure.comm_handle, 0u) << "the other one on this GPU works";
  EXPECT_EQ(failure.ended, wire::EndedKernels::kNone) << "only the kernel that waits is missing";
  EXPECT_THAT(failure.text, AllOf(HasSubstr("CUDA device 0: "), HasSubstr("OUT_OF_RESOURCES")));
}

// Before the daemon has heard of it: a later kernel would take the commands of the missing one.
TEST_F(GpuFailureTest, ALaunchThatFailsEndsLaterCallsAtOnce) {
  MakeRanks(1);
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  test_cuda::Fail("cuLaunchKernel", CUDA_SUCCESS);
  EXPECT_EQ(Reduce(comms_[0]), ncclRemoteError);
  EXPECT_THAT(LastError(), HasSubstr("rank 0: CUDA device 0: "));
}

// A report of one kind does not keep one of the other kind from being sent.
TEST_F(GpuFailureTest, AGpuThatFailsAfterALaunchIsReported) {
  MakeRanks(1);       // handle 0
  AddCommunicator();  // handle 1, on the same GPU
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  test_cuda::Fail("cuLaunchKernel", CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(Reduce(comms_[1]), ncclUnhandledCudaError);
  ASSERT_TRUE(Eventually([&] { return daemon_.GpuFailures().size() == 3; }));
  std::vector<wire::EndedKernels> of_first;
  for (const wire::GpuFailed& failure : daemon_.GpuFailures()) {
    if (failure.comm_handle == 0) of_first.push_back(failure.ended);
  }
  EXPECT_THAT(of_first, ElementsAre(wire::EndedKernels::kNone, wire::EndedKernels::kAll));
}

TEST_F(GpuFailureTest, OtherErrorsFailOnlyTheCall) {
  MakeRanks(1);
  test_cuda::Fail("cuStreamWriteValue64", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Reduce(comms_[0]), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("no memory is left"), HasSubstr("empty_cache"),
                                 Not(HasSubstr("has failed"))));
  test_cuda::Fail("cuStreamWriteValue64", CUDA_SUCCESS);
  AddCommunicator();
  EXPECT_THAT(daemon_.GpuFailures(), IsEmpty());
}

TEST_F(GpuFailureTest, SaysThatAnotherProcessHasTheGpuExclusively) {
  test_cuda::Fail("cuDevicePrimaryCtxRetain", CUDA_ERROR_DEVICE_UNAVAILABLE);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("CUDA_ERROR_DEVICE_UNAVAILABLE"),
                                 HasSubstr("--compute-mode=DEFAULT")));
}

TEST_F(GpuFailureTest, SaysWhyMemoryOfAnotherProcessCannotBeOpened) {
  constexpr char kImage[] = "an image of the fake daemon";
  daemon_.GiveKernelImage(*MakeSealedFile("test", std::as_bytes(std::span(kImage))), sizeof(kImage),
                          "sm_90");
  daemon_.MapNoGpuMemory();
  MakeRanks(1);
  const std::pair<CUresult, const char*> expected[] = {
      {CUDA_ERROR_INVALID_VALUE, "--pid=host"},
      {CUDA_ERROR_NOT_SUPPORTED, "MIG instances"},
      {CUDA_ERROR_OUT_OF_MEMORY, "no memory is left"},
  };
  wire::MapMemory request{};  // by a handle that no process has made
  request.bytes = 4096;
  request.kind = wire::ExportKind::kCudaIpc;
  for (const auto& [error, remedy] : expected) {
    test_cuda::Fail("cuIpcOpenMemHandle", error);
    ++request.memory;
    const wire::MemoryMapped answer = daemon_.AskToMap(request);
    EXPECT_EQ(answer.status.error, wire::ErrorClass::kSystem);
    EXPECT_THAT(answer.status.text, AllOf(HasSubstr("memory of another rank"), HasSubstr(remedy)));
  }
}

}  // namespace gpu_failure_test
}  // namespace mccs
