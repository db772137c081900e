// Memory: allocations, queries about addresses, and exports.

#include "emulation/core/memory_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "proto/fence_page.h"

namespace mccs::emulation {
namespace memory_map_test {

constexpr uint64_t kCapacity = 64 << 20;

class MemoryMapTest : public testing::Test {
 protected:
  CUdeviceptr Allocate(size_t bytes, RegionKind kind = RegionKind::kDevice) {
    CUdeviceptr address = 0;
    EXPECT_EQ(map_.Allocate(kind, 0, 3, bytes, &address), CUDA_SUCCESS);
    return address;
  }
  MccsEmulationIpcHandle Export(CUdeviceptr address) {
    CUipcMemHandle raw;
    EXPECT_EQ(map_.Export(address, &raw), CUDA_SUCCESS);
    MccsEmulationIpcHandle handle;
    memcpy(&handle, &raw, sizeof(handle));
    return handle;
  }
  MemoryMap map_{2, kCapacity};
};

CUipcMemHandle Raw(const MccsEmulationIpcHandle& handle) {
  CUipcMemHandle raw;
  memcpy(&raw, &handle, sizeof(raw));
  return raw;
}

// Runs `body` in another process and returns its exit status.
template <typename Body>
int InAnotherProcess(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(MemoryMapTest, AnAllocationCanBeWrittenAndIsKnownUpToItsLastByte) {
  const CUdeviceptr address = Allocate(5000);
  memset(reinterpret_cast<void*>(address), 1, 5000);
  EXPECT_TRUE(map_.IsKnown(address + 4999, 1));
  EXPECT_FALSE(map_.IsKnown(address + 4999, 2));
  EXPECT_FALSE(map_.Find(address + 5000));
  EXPECT_EQ(map_.Find(address + 17)->base, address);
  EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
  EXPECT_FALSE(map_.Find(address));
}

TEST_F(MemoryMapTest, LargeAllocationsBeginAtAHugePage) {
  const CUdeviceptr address = Allocate(9 << 20);
  EXPECT_EQ(address % (2 << 20), 0u);
  EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
}

TEST_F(MemoryMapTest, OnlyABaseCanBeFreedAndOnlyOnce) {
  const CUdeviceptr address = Allocate(8192);
  EXPECT_EQ(map_.Free(address + 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_.FreeHost(reinterpret_cast<void*>(address)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
  EXPECT_EQ(map_.Free(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryMapTest, FreeingRestoresTheCapacity) {
  CUdeviceptr address = 0;
  const CUdeviceptr most = Allocate(kCapacity - 4096);
  EXPECT_EQ(map_.Allocate(RegionKind::kDevice, 0, 0, 8192, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(map_.Allocate(RegionKind::kDevice, 1, 1, 8192, &address), CUDA_SUCCESS);
  EXPECT_EQ(map_.Free(most), CUDA_SUCCESS);
  EXPECT_EQ(map_.account().used_bytes(0), 0u);
  EXPECT_EQ(map_.Allocate(RegionKind::kDevice, 0, 0, ~size_t{0}, &address),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(map_.Allocate(RegionKind::kDevice, 0, 0, 0, &address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryMapTest, BufferIdsAreNeverReused) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    const CUdeviceptr address = Allocate(4096);
    EXPECT_TRUE(ids.insert(map_.Find(address)->buffer_id).second);
    EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
  }
}

TEST_F(MemoryMapTest, AnExportedMemoryCanNeitherShrinkNorGrow) {
  const MccsEmulationIpcHandle handle = Export(Allocate(8192));
  EXPECT_EQ(handle.pid, getpid());
  EXPECT_EQ(handle.bytes, 8192u);
  EXPECT_EQ(handle.gpu, 3u);
  EXPECT_NE(ftruncate(handle.fd, 4096), 0);
  EXPECT_NE(ftruncate(handle.fd, 16384), 0);
}

TEST_F(MemoryMapTest, AnExportedMemoryHasAllItsPages) {
  constexpr size_t kBytes = size_t{40} << 20;
  const MccsEmulationIpcHandle handle = Export(Allocate(kBytes));
  struct stat status;
  ASSERT_EQ(fstat(handle.fd, &status), 0);
  EXPECT_GE(static_cast<size_t>(status.st_blocks) * 512, kBytes);
}

TEST_F(MemoryMapTest, AnotherProcessReadsAndWritesTheSameBytes) {
  const CUdeviceptr address = Allocate(8192);
  auto* bytes = reinterpret_cast<volatile char*>(address);
  bytes[5000] = 42;
  const MccsEmulationIpcHandle handle = Export(address);
  const int status = InAnotherProcess([&] {
    MemoryMap other(1, kCapacity);
    CUdeviceptr mapped = 0;
    CUdeviceptr again = 0;
    if (other.Import(0, Raw(handle), &mapped) != CUDA_SUCCESS) return 1;
    if (other.Import(0, Raw(handle), &again) != CUDA_SUCCESS || again != mapped) return 2;
    auto* theirs = reinterpret_cast<volatile char*>(mapped);
    if (theirs[5000] != 42) return 3;
    theirs[1] = 43;
    if (other.CloseImported(mapped) != CUDA_SUCCESS) return 4;
    if (!other.Find(mapped)) return 5;  // opened twice
    if (other.CloseImported(mapped) != CUDA_SUCCESS || other.Find(mapped)) return 6;
    return other.CloseImported(mapped) == CUDA_ERROR_INVALID_VALUE ? 0 : 7;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes[1], 43);
}

TEST_F(MemoryMapTest, InvalidHandlesAreRejected) {
  const CUdeviceptr address = Allocate(8192);
  const MccsEmulationIpcHandle good = Export(address);
  std::vector<MccsEmulationIpcHandle> bad(7, good);
  bad[0].magic ^= 1;
  bad[1].version += 1;
  bad[2].secret ^= 1;
  bad[3].inode += 1;
  bad[4].bytes += 4096;
  bad[5].fd = 0;
  bad[6].pid = 1 << 29;
  const int status = InAnotherProcess([&] {
    if (freopen("/dev/null", "w", stderr) == nullptr) return 100;
    MemoryMap other(1, kCapacity);
    CUdeviceptr mapped = 0;
    for (size_t i = 0; i < bad.size(); ++i) {
      if (other.Import(0, Raw(bad[i]), &mapped) == CUDA_SUCCESS) return static_cast<int>(i) + 1;
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
  CUdeviceptr mapped = 0;
  EXPECT_EQ(map_.Import(0, Raw(good), &mapped), CUDA_ERROR_INVALID_CONTEXT);  // the owner itself
}

TEST_F(MemoryMapTest, AFreedAllocationCannotBeOpenedAnyMore) {
  const CUdeviceptr address = Allocate(8192);
  const MccsEmulationIpcHandle handle = Export(address);
  EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
  Allocate(8192);  // reuses the descriptor's number
  const int status = InAnotherProcess([&] {
    if (freopen("/dev/null", "w", stderr) == nullptr) return 100;
    MemoryMap other(1, kCapacity);
    CUdeviceptr mapped = 0;
    return other.Import(0, Raw(handle), &mapped) == CUDA_ERROR_MAP_FAILED ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(MemoryMapTest, PoolsAndInnerPointersAreNotExported) {
  CUipcMemHandle raw;
  EXPECT_EQ(map_.Export(Allocate(4096, RegionKind::kPool), &raw), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_.Export(Allocate(8192) + 4096, &raw), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_.Export(4096, &raw), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryMapTest, RegistrationRequiresMappedUnregisteredMemory) {
  char* memory = static_cast<char*>(
      mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(map_.Register(0, memory + 100, 1000, 0), CUDA_SUCCESS);
  EXPECT_EQ(map_.Register(0, memory, 200, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(map_.Register(0, memory + 1100, 100, 0), CUDA_SUCCESS);
  EXPECT_EQ(map_.Unregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(map_.Unregister(memory + 100), CUDA_SUCCESS);
  EXPECT_EQ(map_.Register(0, nullptr, 4096, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_.Register(0, memory, 0, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(memory + 8192, 8192);
  EXPECT_EQ(map_.Register(0, memory + 4096, 8192, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(memory, 8192);
}

TEST_F(MemoryMapTest, AFencePageIsKnownByItsHeader) {
  alignas(64) static char pages[2][256];
  const wire::FencePageHeader header{wire::kFencePageMagic, sizeof(pages[0])};
  memcpy(pages[0], &header, sizeof(header));
  EXPECT_EQ(map_.Register(0, pages[0], 256, 0), CUDA_SUCCESS);
  EXPECT_EQ(map_.Register(0, pages[1], 256, 0), CUDA_SUCCESS);
  EXPECT_TRUE(map_.Find(reinterpret_cast<uintptr_t>(pages[0]))->fence_page);
  EXPECT_FALSE(map_.Find(reinterpret_cast<uintptr_t>(pages[1]))->fence_page);
}

}  // namespace memory_map_test
}  // namespace mccs::emulation
