// Dma-bufs of GPU memory for the daemon's NICs: which buffers have one, and why others have none.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "tests/unit/mentions.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace dma_buf_test {

using Registered = FakeDaemon::RegisteredBuffer;

class DmaBufs : public ShimTest {
 protected:
  void Start(bool wanted = true, int ranks = 1) {
    if (wanted) daemon_.WantDmaBufs();
    MakeRanks(ranks);
  }
  // How the memory was registered with the daemon.
  Registered Use(void* memory) {
    EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
        << LastError();
    EXPECT_TRUE(test_cuda::Synchronize(nullptr));
    const std::vector<Registered> all = daemon_.Registered();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Registered{} : all.front();
  }
  // The inode of the memory's file in the emulation.
  static uint64_t FileOf(void* memory) {
    int fd = -1;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(cuMemGetHandleForAddressRange(&fd, reinterpret_cast<CUdeviceptr>(memory), page,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
              CUDA_SUCCESS);
    struct stat file {};
    EXPECT_EQ(fstat(fd, &file), 0);
    close(fd);
    return file.st_ino;
  }
  static std::string Why(const Registered& registered) { return registered.message.no_dma_buf; }
};

TEST_F(DmaBufs, AnAllocationIsRegisteredWithItsDmaBuf) {
  Start();
  void* const memory = test_cuda::Alloc(1000);  // less than a page
  const Registered registered = Use(memory);
  EXPECT_EQ(registered.message.kind, wire::ExportKind::kCudaIpc);
  EXPECT_EQ(registered.message.has_dma_buf, 1u);
  EXPECT_EQ(registered.message.dma_buf_offset, 0u);
  EXPECT_EQ(registered.files, std::vector<uint64_t>{FileOf(memory)});
  EXPECT_EQ(Why(registered), "");
}

TEST_F(DmaBufs, VirtualMemoryHasOneBesideItsOwnDescriptor) {
  Start();
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess) << LastError();
  const Registered registered = Use(memory);
  EXPECT_EQ(registered.message.kind, wire::ExportKind::kFileDescriptor);
  EXPECT_EQ(registered.message.has_dma_buf, 1u);
  EXPECT_EQ(registered.files, std::vector<uint64_t>{FileOf(memory)}) << "the second descriptor";
  ASSERT_EQ(ncclMemFree(memory), ncclSuccess);
}

TEST_F(DmaBufs, ADaemonThatDoesNotWantThemGetsNone) {
  Start(/*wanted=*/false);
  const Registered registered = Use(test_cuda::Alloc(1000));
  EXPECT_EQ(registered.message.has_dma_buf, 0u);
  EXPECT_TRUE(registered.files.empty());
  EXPECT_EQ(Why(registered), "");
}

TEST_F(DmaBufs, AGpuWithoutThemIsNamedWithTheRemedy) {
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
  Start();
  const Registered registered = Use(test_cuda::Alloc(1000));
  EXPECT_EQ(registered.message.has_dma_buf, 0u);
  EXPECT_TRUE(registered.files.empty());
  EXPECT_THAT(Why(registered),
              Mentions("CUDA device 0", "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0",
                       "open kernel modules", "Linux 5.12"));
}

// Its kernels might read what was there before the NIC's write.
TEST_F(DmaBufs, AGpuThatDoesNotOrderWritesOfNicsHasNone) {
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                          CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
  Start();
  const Registered registered = Use(test_cuda::Alloc(1000));
  EXPECT_EQ(registered.message.has_dma_buf, 0u);
  EXPECT_THAT(Why(registered), Mentions("CUDA device 0", "WRITES_ORDERING is 0"));
}

TEST_F(DmaBufs, AGpuWhoseWritesNeedAFlushHasNone) {
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8);
  Start();
  const Registered registered = Use(test_cuda::Alloc(1000));
  EXPECT_EQ(registered.message.has_dma_buf, 0u);
  EXPECT_THAT(Why(registered), Mentions("CUDA device 0", "compute capability 8.0", "flush"));
}

// Rank 0 uses memory of the GPU of rank 1. The library stages what rank 0's kernels might see late.
TEST_F(DmaBufs, MemoryOfAnotherGpuIsStagedUnlessWritesAreOrderedForAllGpus) {
  for (const auto& [ordering, staged] : {std::pair(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 1u),
                                         {CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES, 0u}}) {
    test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, ordering);
    daemon_.MapNoGpuMemory();
    if (comms_.empty()) Start(/*wanted=*/true, /*ranks=*/2);
    const size_t before = test_cuda::registered_host_ranges();
    test_cuda::SetDevice(1);
    int* const buffers[] = {Buffer<int>({1, 2}), Buffer<int>({3, 4})};
    test_cuda::SetDevice(0);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(ncclAllReduce(buffers[r], buffers[r], 2, ncclInt, ncclSum, comms_[r], nullptr),
                ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
    for (const int device : {0, 1}) {
      test_cuda::SetDevice(device);
      EXPECT_TRUE(test_cuda::Synchronize(nullptr));
    }
    EXPECT_EQ(test_cuda::registered_host_ranges(), before + staged);
    EXPECT_EQ(Read(buffers[0], 2), (std::vector<int>{4, 6}));
  }
}

TEST_F(DmaBufs, AFailedGpuIsReportedAsSuch) {
  Start();
  test_cuda::Fail("cuMemGetHandleForAddressRange", CUDA_ERROR_ECC_UNCORRECTABLE);
  void* const memory = test_cuda::Alloc(1000);
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), Mentions("CUDA_ERROR_ECC_UNCORRECTABLE"));
}

TEST_F(DmaBufs, AnErrorOfTheDriverIsNamed) {
  test_cuda::Fail("cuMemGetHandleForAddressRange", CUDA_ERROR_NOT_SUPPORTED);
  Start();
  const Registered registered = Use(test_cuda::Alloc(1000));
  EXPECT_EQ(registered.message.has_dma_buf, 0u);
  EXPECT_THAT(Why(registered),
              Mentions("cuMemGetHandleForAddressRange", "CUDA_ERROR_NOT_SUPPORTED", "cudaMalloc"));
}

}  // namespace dma_buf_test
}  // namespace mccs
