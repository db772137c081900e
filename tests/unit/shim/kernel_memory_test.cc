// Memory that the daemon asks a process to map for its kernels.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "base/shared_region.h"
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

// A copy that a call of CUDA holds up, and copies behind it.
class HeldCopiesTest : public KernelMemoryTest {
 protected:
  void SetUp() override {
    KernelMemoryTest::SetUp();
    held_ = Buffer<int>({0});
    test_cuda::HoldCopiesTo(held_);
    Copy(1, held_);
    // The thread has taken it, and takes no other ones until it has ended.
    ASSERT_TRUE(Eventually([&] { return test_cuda::HasHeldCopy(); }));
  }
  void TearDown() override {
    test_cuda::ReleaseCopies();
    KernelMemoryTest::TearDown();
  }
  void Copy(uint64_t number, int* to) {
    wire::CopyMemory request{};
    request.copy = number;
    request.to = reinterpret_cast<uint64_t>(to);
    request.from = reinterpret_cast<uint64_t>(&arrived_);
    request.bytes = sizeof(int);
    daemon_.SendMessage(request);
  }
  // In the order of their answers.
  std::vector<uint64_t> RunAll(size_t copies) {
    test_cuda::ReleaseCopies();
    EXPECT_TRUE(Eventually([&] { return daemon_.CopyAnswers().size() == copies; }));
    std::vector<uint64_t> made;
    for (const wire::MemoryCopied& answer : daemon_.CopyAnswers()) {
      if (answer.status.error == wire::ErrorClass::kNone) made.push_back(answer.copy);
    }
    return made;
  }

  int arrived_ = 7;
  int* held_ = nullptr;
};

TEST_F(HeldCopiesTest, ACopyThatIsDroppedDoesNotBegin) {
  int* window = Buffer<int>({0, 0});
  Copy(2, window);
  Copy(3, window + 1);
  wire::DropCopy drop{};
  for (const uint64_t copy : {1, 2}) {  // the first one runs
    drop.copy = copy;
    daemon_.SendMessage(drop);
  }
  MapOwn(window, 0);  // answered after the messages before it
  EXPECT_THAT(RunAll(3), testing::ElementsAre(1, 3));
  EXPECT_THAT(Read(window, 2), testing::ElementsAre(0, 7));
}

TEST_F(HeldCopiesTest, FreedMemoryIsNotWritten) {
  int* freed = Buffer<int>({0, 0});
  int* window = Buffer<int>({0});
  Copy(2, freed + 1);
  Copy(3, window);
  MapOwn(window, 0);
  // The driver waits for the stream of the copy that runs, after the library has dropped the
  // others.
  auto free = std::async(std::launch::async, [&] { return ncclMemFree(freed); });
  EXPECT_EQ(free.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_THAT(RunAll(3), testing::ElementsAre(1, 3));
  EXPECT_EQ(free.get(), ncclSuccess);
}

TEST_F(HeldCopiesTest, TheEndOfAWindowWaitsForTheCopyThatRuns) {
  ncclWindow_t window = nullptr;
  ASSERT_EQ(ncclCommWindowRegister(comms_[0], held_, sizeof(int), &window, 0), ncclSuccess);
  auto ended =
      std::async(std::launch::async, [&] { return ncclCommWindowDeregister(comms_[0], window); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  test_cuda::ReleaseCopies();
  EXPECT_EQ(ended.get(), ncclSuccess);
  EXPECT_THAT(RunAll(1), testing::ElementsAre(1));
}

// The daemon has unmapped it at its end; the copy is late.
TEST_F(HeldCopiesTest, ACopyKeepsItsSource) {
  absl::StatusOr<SharedRegion> source = SharedRegion::Create("source", 4096);
  ASSERT_TRUE(source.ok());
  *reinterpret_cast<int*>(source->data()) = 9;
  wire::MapMemory request{};
  request.memory = 5;
  request.bytes = source->bytes();
  request.kind = wire::ExportKind::kHostMemory;
  const UniqueFd fd = source->TakeFd();
  const size_t registered = test_cuda::registered_host_ranges();
  const wire::MemoryMapped mapped = daemon_.AskToMap(request, fd.get());
  ASSERT_EQ(mapped.status.error, wire::ErrorClass::kNone) << mapped.status.text;
  int* window = Buffer<int>({0});
  wire::CopyMemory copy{};
  copy.copy = 2;
  copy.to = reinterpret_cast<uint64_t>(window);
  copy.from = mapped.address;
  copy.bytes = sizeof(int);
  daemon_.SendMessage(copy);
  wire::UnmapMemory unmap{};
  unmap.memory = 5;
  daemon_.SendMessage(unmap);
  MapOwn(window, 0);
  EXPECT_EQ(test_cuda::registered_host_ranges(), registered + 1);
  EXPECT_THAT(RunAll(2), testing::ElementsAre(1, 2));
  EXPECT_THAT(Read(window, 1), testing::ElementsAre(9));
  EXPECT_TRUE(Eventually([&] { return test_cuda::registered_host_ranges() == registered; }));
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
