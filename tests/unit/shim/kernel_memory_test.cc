// Memory that the daemon asks a process to map for its kernels.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace kernel_memory_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class KernelMemoryTest : public ShimTest {
 protected:
  // Two ranks of this process, on the GPUs 0 and 1.
  KernelMemoryTest() {
    daemon_.MapNoGpuMemory();
    MakeRanks(2);
  }
  // Memory of this process, for kernels on `device`.
  wire::MemoryMapped MapOwn(const void* address, int device,
                            wire::ExportKind kind = wire::ExportKind::kCudaIpc) {
    wire::MapMemory request{};
    request.memory = 1;
    request.bytes = test_cuda::kGranularity;
    request.kind = kind;
    request.device = device;
    request.own_address = reinterpret_cast<uint64_t>(address);
    return daemon_.AskToMap(request);
  }
  static std::string TextOf(const wire::MemoryMapped& answer) { return answer.status.text; }
  // Whether kernels of GPU 0 already reach memory of GPU 1.
  static bool PeerAccessIsEnabled() {
    CUcontext first = nullptr, second = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(first), CUDA_SUCCESS);
    const CUresult enabled = cuCtxEnablePeerAccess(second, 0);
    if (enabled == CUDA_SUCCESS) {
      EXPECT_EQ(cuCtxDisablePeerAccess(second), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
    return enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
};

TEST_F(KernelMemoryTest, MemoryOfTheProcesssOtherGpuBecomesAccessible) {
  EXPECT_FALSE(PeerAccessIsEnabled());
  test_cuda::SetDevice(1);
  const void* const memory = test_cuda::Alloc(test_cuda::kGranularity);
  for (int i = 0; i < 2; ++i) {  // the second time it is already enabled
    const wire::MemoryMapped answer = MapOwn(memory, 0);
    EXPECT_EQ(answer.status.error, wire::ErrorClass::kNone) << TextOf(answer);
    EXPECT_EQ(answer.address, reinterpret_cast<uint64_t>(memory));
  }
  EXPECT_TRUE(PeerAccessIsEnabled());
}

TEST_F(KernelMemoryTest, VirtualMemoryOfTheOtherGpuBecomesAccessible) {
  test_cuda::SetDevice(1);
  std::byte* const memory = test_cuda::Reserve(test_cuda::kGranularity);
  test_cuda::Map(memory, test_cuda::kGranularity);
  ASSERT_THAT(test_cuda::DevicesWithAccess(memory), Not(Contains(0)));
  const wire::MemoryMapped answer = MapOwn(memory, 0, wire::ExportKind::kFileDescriptor);
  EXPECT_EQ(answer.status.error, wire::ErrorClass::kNone) << TextOf(answer);
  EXPECT_THAT(test_cuda::DevicesWithAccess(memory), Contains(0));
}

TEST_F(KernelMemoryTest, GpusWithoutAccessAreReported) {
  test_cuda::SeparateOddAndEvenGpus();
  test_cuda::SetDevice(1);
  const wire::MemoryMapped answer = MapOwn(test_cuda::Alloc(test_cuda::kGranularity), 0);
  EXPECT_EQ(answer.address, 0u);
  EXPECT_THAT(TextOf(answer), HasSubstr("no access to memory of CUDA device 1"));
}

TEST_F(KernelMemoryTest, AGpuWithoutCommunicatorIsReported) {
  const wire::MemoryMapped answer = MapOwn(test_cuda::Alloc(test_cuda::kGranularity), 5);
  EXPECT_THAT(TextOf(answer), HasSubstr("no communicator uses CUDA device 5"));
}

TEST_F(KernelMemoryTest, CopiesHostMemoryIntoItsOwn) {
  int* window = Buffer<int>({0, 0, 0, 0});
  std::vector<int> arrived = {5, 6};
  wire::CopyMemory request{};
  request.copy = 9;
  request.to = reinterpret_cast<uint64_t>(window + 1);
  request.from = reinterpret_cast<uint64_t>(arrived.data());
  request.bytes = 2 * sizeof(int);
  const wire::MemoryCopied answer = daemon_.AskToCopy(request);
  EXPECT_EQ(answer.copy, 9u);
  EXPECT_EQ(answer.status.error, wire::ErrorClass::kNone) << answer.status.text;
  EXPECT_THAT(Read(window, 4), testing::ElementsAre(0, 5, 6, 0));
}

// With CUDA_DEVICE_MAX_CONNECTIONS=1, or many streams, all queues have work behind calls that wait
// for the copy.
TEST_F(KernelMemoryTest, CopiesAlthoughStreamsOfTheProgramBlockAllHardwareQueues) {
  constexpr size_t kStreams = 32;  // the largest number of queues
  int* window = Buffer<int>({0});
  auto* const word = static_cast<uint64_t*>(test_cuda::AllocHost(sizeof(uint64_t)));
  *word = 0;
  std::vector<CUstream> streams(kStreams);
  for (CUstream& stream : streams) {
    stream = test_cuda::MakeStream();
    ASSERT_EQ(cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word), 1,
                                  CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
  }
  int arrived = 7;
  wire::CopyMemory request{};
  request.copy = 1;
  request.to = reinterpret_cast<uint64_t>(window);
  request.from = reinterpret_cast<uint64_t>(&arrived);
  request.bytes = sizeof(int);
  const wire::MemoryCopied answer = daemon_.AskToCopy(request);
  EXPECT_EQ(answer.copy, 1u);
  EXPECT_EQ(answer.status.error, wire::ErrorClass::kNone) << answer.status.text;
  EXPECT_TRUE(test_cuda::IsBusy(streams[0]));
  std::atomic_ref(*word).store(1);
  for (CUstream stream : streams) EXPECT_TRUE(test_cuda::Synchronize(stream));
  EXPECT_THAT(Read(window, 1), testing::ElementsAre(7));
}

TEST_F(KernelMemoryTest, ACopyForAGpuWithoutCommunicatorIsAnError) {
  wire::CopyMemory request{};
  request.copy = 1;
  request.device = 7;
  const wire::MemoryCopied answer = daemon_.AskToCopy(request);
  EXPECT_EQ(answer.status.error, wire::ErrorClass::kSystem);
  EXPECT_THAT(answer.status.text, testing::HasSubstr("no communicator uses CUDA device 7"));
}

}  // namespace kernel_memory_test
}  // namespace mccs
