// Memory pools under a limit, and over many allocations.

#include "emulation/core/memory_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace mccs::emulation {
namespace memory_pool_test {

constexpr size_t kBlock = 1 << 20;
constexpr uint64_t kCapacity = 8 * kBlock;

// One engine for all tests. Never destroyed, because its threads never end.
Engine& TheEngine() {
  static Engine* const engine = new Engine(1, 32);
  return *engine;
}

class MemoryPoolTest : public testing::Test {
 protected:
  CUdeviceptr Allocate(size_t bytes, CUresult expected = CUDA_SUCCESS) {
    CUdeviceptr address = 0;
    EXPECT_EQ(pools_.Allocate(pools_.default_pool(0), stream_, bytes, &address), expected);
    return address;
  }
  void KeepAll() {
    const cuuint64_t all = ~cuuint64_t{0};
    const CUmemoryPool pool = pools_.default_pool(0);
    ASSERT_EQ(pools_.SetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), CUDA_SUCCESS);
  }
  uint64_t Used() { return map_.account().used_bytes(0); }

  MemoryMap map_{1, kCapacity};
  Engine& engine_ = TheEngine();
  const std::vector<GpuIdentity> gpus_{IdentifyGpu("host", 0)};
  MemoryPools pools_{&map_, &engine_, &gpus_};
  const std::shared_ptr<Stream> stream_ = engine_.CreateStream({.gpu = 0, .blocking = false});
};

TEST_F(MemoryPoolTest, UnusedBlocksAreFreedWhenMemoryIsShort) {
  KeepAll();
  const CUdeviceptr first = Allocate(5 * kBlock);
  EXPECT_EQ(pools_.Free(first, stream_), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 5 * kBlock);
  Allocate(kBlock);  // does not take it from a block five times as large
  EXPECT_EQ(Used(), 6 * kBlock);
  Allocate(7 * kBlock);
  EXPECT_EQ(Used(), 8 * kBlock);
  Allocate(kBlock, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(MemoryPoolTest, AReusedBlockIsAnotherBuffer) {
  KeepAll();
  const CUdeviceptr first = Allocate(kBlock);
  const uint64_t before = map_.Find(first)->buffer_id;
  EXPECT_EQ(pools_.Free(first, stream_), CUDA_SUCCESS);
  EXPECT_EQ(pools_.Free(first, stream_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(Allocate(kBlock), first);
  EXPECT_NE(map_.Find(first)->buffer_id, before);
}

TEST_F(MemoryPoolTest, APoolsLimitIsEnforced) {
  CUmemPoolProps properties{};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 2 * kBlock;
  CUmemoryPool pool = nullptr;
  CUdeviceptr address = 0;
  ASSERT_EQ(pools_.Create(properties, &pool), CUDA_SUCCESS);
  EXPECT_EQ(pools_.Allocate(pool, stream_, 2 * kBlock, &address), CUDA_SUCCESS);
  EXPECT_EQ(pools_.PoolOf(address), pool);
  CUdeviceptr other = 0;
  EXPECT_EQ(pools_.Allocate(pool, stream_, kBlock, &other), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pools_.Destroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(pools_.Allocate(pool, stream_, kBlock, &other), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pools_.FreeNow(address), CUDA_SUCCESS);  // outlives its pool
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryPoolTest, RepeatedAllocationsDoNotLeak) {
  constexpr uint32_t kSeed = 4711;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  std::vector<CUdeviceptr> blocks;
  for (int round = 0; round < 3000; ++round) {
    if (blocks.size() < 4 && random() % 2 == 0) {
      blocks.push_back(Allocate(kBlock / (1 + random() % 8)));
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_EQ(pools_.Free(blocks.back(), stream_), CUDA_SUCCESS);
      blocks.pop_back();
    }
    if (round % 100 == 0) pools_.TrimAll();
  }
  for (const CUdeviceptr block : blocks) EXPECT_EQ(pools_.Free(block, stream_), CUDA_SUCCESS);
  pools_.TrimAll();
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryPoolTest, AResetRemovesTheGpusBlocks) {
  const CUdeviceptr block = Allocate(kBlock);
  pools_.OnGpuMemoryFreed(0);
  map_.FreeAllOf(0);
  EXPECT_EQ(pools_.Free(block, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Used(), 0u);
}

}  // namespace memory_pool_test
}  // namespace mccs::emulation
