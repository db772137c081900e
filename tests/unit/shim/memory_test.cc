// ncclMemAlloc and ncclMemFree: the kind of memory, access to it, its registration with the daemon,
// and its release.
#include <limits>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace memory_test {

using test_cuda::kGranularity;
using test_cuda::PropertiesAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::MessageKind;

constexpr int kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr int kFabric = CU_MEM_HANDLE_TYPE_FABRIC;

class MemAlloc : public ShimTest {
 protected:
  MemAlloc() { test_cuda::SetDevice(0); }  // The driver's functions need a current context.

  static int* Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(ncclMemAlloc(&memory, bytes), ncclSuccess) << LastError();
    return static_cast<int*>(memory);
  }
  void Sum(int* data, size_t count = 1) {
    ASSERT_EQ(ncclAllReduce(data, data, count, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
        << LastError();
    ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  }
  static bool IsVirtual(const void* memory) {
    CUmemGenericAllocationHandle handle = 0;
    if (cuMemRetainAllocationHandle(&handle, const_cast<void*>(memory)) != CUDA_SUCCESS) {
      return false;
    }
    cuMemRelease(handle);
    return true;
  }
  static void ExpectNothingLeft() {
    EXPECT_EQ(test_cuda::reservations(), 0u);
    EXPECT_EQ(test_cuda::used_bytes(), 0);
    EXPECT_EQ(test_cuda::allocations(), 0u);
  }
  int Count(MessageKind kind) { return daemon_.CountOf(kind); }
};

TEST_F(MemAlloc, ReturnsVirtualMemoryWithADescriptor) {
  int* const memory = Allocate(kGranularity + 1);
  ASSERT_TRUE(IsVirtual(memory));
  EXPECT_EQ(PropertiesAt(memory).requestedHandleTypes, kDescriptor);
  EXPECT_EQ(PropertiesAt(memory).type, CU_MEM_ALLOCATION_TYPE_PINNED);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(memory) + 5),
            CUDA_SUCCESS);
  EXPECT_EQ(base, reinterpret_cast<CUdeviceptr>(memory));
  EXPECT_EQ(bytes, 2 * kGranularity);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess) << LastError();
  ExpectNothingLeft();
}

TEST_F(MemAlloc, UsesTheCurrentGpuAndGrantsAccessToPeers) {
  test_cuda::SeparateOddAndEvenGpus();
  test_cuda::SetDevice(3);
  int* const memory = Allocate(1);
  EXPECT_EQ(PropertiesAt(memory).location.id, 3);
  EXPECT_THAT(test_cuda::DevicesWithAccess(memory), ElementsAre(1, 3, 5, 7));
  test_cuda::SetDevice(0);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(test_cuda::GetDevice(), 0);
}

TEST_F(MemAlloc, ReturnsOrdinaryMemoryIfItCannotBeShared) {
  for (const CUdevice_attribute missing :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    test_cuda::SetAttribute(missing, 0);
    int* const memory = Allocate(8);
    EXPECT_FALSE(IsVirtual(memory));
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
    ExpectNothingLeft();
    test_cuda::SetAttribute(missing, 1);
  }
}

TEST_F(MemAlloc, SupportsFabricHandlesIfPermitted) {
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1);
  int* memory = Allocate(8);
  EXPECT_EQ(test_cuda::requested_handle_types(), kDescriptor | kFabric);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  test_cuda::PermitFabric(false);
  memory = Allocate(8);
  EXPECT_EQ(test_cuda::requested_handle_types(), kDescriptor);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

TEST_F(MemAlloc, IsOneBufferAtTheDaemon) {
  MakeRanks(1);
  constexpr size_t kCount = 3 * kGranularity / sizeof(int);
  int* const memory = Allocate(kCount * sizeof(int));
  std::fill_n(memory, kCount, 7);
  Sum(memory, kCount);
  EXPECT_TRUE(Read(memory, kCount) == std::vector<int>(kCount, 7));
  Sum(memory + kCount - 1);
  EXPECT_EQ(Count(MessageKind::kRegisterBuffer), 1);
  EXPECT_EQ(Count(MessageKind::kReserveRange), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, kCount + 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("exceeds its allocation"));
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(Count(MessageKind::kReleaseBuffer), 1);
  ExpectNothingLeft();
}

// If a program maps other memory at the addresses of our allocation, that has its own range.
TEST_F(MemAlloc, DetectsOtherMemoryAtItsAddress) {
  MakeRanks(1);
  auto* const memory = reinterpret_cast<std::byte*>(Allocate(2 * kGranularity));
  Sum(reinterpret_cast<int*>(memory));
  test_cuda::Unmap(memory);
  test_cuda::Map(memory, kGranularity);
  test_cuda::Map(memory + kGranularity, kGranularity);
  auto* const data = reinterpret_cast<int*>(memory);
  constexpr size_t kCount = 2 * kGranularity / sizeof(int);
  std::fill_n(data, kCount, 9);
  Sum(data, kCount);
  EXPECT_TRUE(Read(data, kCount) == std::vector<int>(kCount, 9));
  EXPECT_EQ(Count(MessageKind::kMapChunk), 2);
}

TEST_F(MemAlloc, FailedStepLeaksNothing) {
  for (const char* step : {"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve",
                           "cuMemMap", "cuMemSetAccess"}) {
    test_cuda::Fail(step, CUDA_ERROR_OUT_OF_MEMORY);
    void* memory = nullptr;
    EXPECT_EQ(ncclMemAlloc(&memory, 8), ncclUnhandledCudaError) << step;
    EXPECT_EQ(memory, nullptr);
    EXPECT_THAT(LastError(), HasSubstr(step));
    EXPECT_THAT(LastError(), HasSubstr("ncclMemAlloc: cannot allocate 8 bytes"));
    ExpectNothingLeft();
  }
}

TEST_F(MemAlloc, RejectsHugeSizes) {
  void* memory = nullptr;
  for (size_t bytes :
       {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 2}) {
    EXPECT_EQ(ncclMemAlloc(&memory, bytes), ncclUnhandledCudaError);
  }
  ExpectNothingLeft();
}

TEST_F(MemAlloc, FreesOnlyTheStartOfLiveAllocations) {
  int* const memory = Allocate(kGranularity);
  EXPECT_EQ(ncclMemFree(memory + 1), ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), HasSubstr("ncclMemFree: cannot free 0x"));
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclUnhandledCudaError);
  EXPECT_EQ(ncclMemFree(&comms_), ncclUnhandledCudaError);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
  std::byte* const segment = test_cuda::Reserve(kGranularity);
  test_cuda::Map(segment, kGranularity);
  EXPECT_EQ(ncclMemFree(segment), ncclUnhandledCudaError) << "the program has to unmap it";
  EXPECT_TRUE(IsVirtual(segment));
}

TEST_F(MemAlloc, FreesMemoryOfCudaMalloc) {
  EXPECT_EQ(ncclMemFree(test_cuda::Alloc(64)), ncclSuccess) << LastError();
  ExpectNothingLeft();
}

TEST_F(MemAlloc, RetainedHandleOutlivesTheFree) {
  int* const memory = Allocate(8);
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&handle, memory), CUDA_SUCCESS);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(test_cuda::used_bytes(), int64_t{kGranularity});
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  ExpectNothingLeft();
}

TEST_F(MemAlloc, MayBeFreedWhileItIsRegistered) {
  MakeRanks(1);
  int* const memory = Allocate(8);
  void* handle = nullptr;
  ASSERT_EQ(ncclCommRegister(comms_[0], memory, 8, &handle), ncclSuccess);
  Sum(memory);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess) << LastError();
  EXPECT_EQ(Count(MessageKind::kReleaseBuffer), 1);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclSuccess);
  ExpectNothingLeft();
}

TEST_F(MemAlloc, DeadDaemonDoesNotDelayFrees) {
  MakeRanks(1);
  int* const memory = Allocate(8);
  Sum(memory);
  daemon_.Die();
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess) << LastError();
  ExpectNothingLeft();
}

TEST_F(MemAlloc, LeaksNothing) {
  MakeRanks(1);
  for (int i = 1; i <= 200; ++i) {
    int* const memory = Allocate(static_cast<size_t>(i) * 1000);
    *memory = i;
    Sum(memory);
    EXPECT_EQ(*memory, i);
    ASSERT_EQ(ncclMemFree(memory), ncclSuccess) << LastError();
  }
  EXPECT_EQ(Count(MessageKind::kRegisterBuffer), 200);
  EXPECT_EQ(Count(MessageKind::kReleaseBuffer), 200);
  ExpectNothingLeft();
}

}  // namespace memory_test
}  // namespace mccs
