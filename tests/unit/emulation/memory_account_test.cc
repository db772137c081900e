// Free memory, also while other processes hold freed memory; and virtual memory, which has no
// address of its own.

#include "emulation/core/memory_account.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "emulation/core/memory_map.h"
#include "emulation/core/virtual_memory.h"

namespace mccs::emulation {
namespace memory_account_test {

constexpr size_t kPage = kGranularityBytes;
constexpr uint64_t kCapacity = 8 * kPage;

// A second process that runs a function, reports that, and ends on request.
class Holder {
 public:
  explicit Holder(const std::function<bool()>& hold) {
    EXPECT_EQ(pipe(said_), 0);
    EXPECT_EQ(pipe(told_), 0);
    child_ = fork();
    if (child_ == 0) {
      close(told_[1]);
      const char done = hold() ? 1 : 0;
      char byte = 0;
      if (write(said_[1], &done, 1) != 1) _exit(1);
      static_cast<void>(read(told_[0], &byte, 1));
      _exit(0);
    }
    char done = 0;
    EXPECT_EQ(read(said_[0], &done, 1), 1);
    EXPECT_EQ(done, 1);
  }
  ~Holder() { End(); }
  void End() {
    if (child_ < 0) return;
    for (const int fd : {told_[0], told_[1], said_[0], said_[1]}) close(fd);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  int said_[2] = {-1, -1};
  int told_[2] = {-1, -1};
  pid_t child_ = -1;
};

class MemoryAccountTest : public testing::Test {
 protected:
  CUdeviceptr Allocate(size_t bytes, CUresult expected = CUDA_SUCCESS) {
    CUdeviceptr address = 0;
    EXPECT_EQ(map_.Allocate(RegionKind::kDevice, 0, 0, bytes, &address), expected);
    return address;
  }
  uint64_t Used() { return map_.account().used_bytes(0); }
  CUmemGenericAllocationHandle Create(size_t bytes, CUresult expected = CUDA_SUCCESS) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(virtual_.Create(bytes, properties, &handle), expected);
    return handle;
  }
  uintptr_t Reserve(size_t bytes) {
    uintptr_t address = 0;
    EXPECT_EQ(virtual_.Reserve(bytes, 0, 0, &address), CUDA_SUCCESS);
    return address;
  }
  CUresult Open(uintptr_t address, size_t bytes) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return virtual_.SetAccess(address, bytes, {&access, 1});
  }

  MemoryMap map_{1, kCapacity};
  const std::vector<GpuIdentity> gpus_{IdentifyGpu("host", 0)};
  VirtualMemory virtual_{&map_, &gpus_};
};

TEST_F(MemoryAccountTest, FreedMemoryCanBeAllocatedAgain) {
  for (int i = 0; i < 20; ++i) {
    const CUdeviceptr address = Allocate(kCapacity - kPage);
    Allocate(2 * kPage, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(map_.Free(address), CUDA_SUCCESS);
  }
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryAccountTest, FreedMemoryThatAnotherProcessMapsIsNotFree) {
  const CUdeviceptr address = Allocate(6 * kPage);
  CUipcMemHandle handle;
  ASSERT_EQ(map_.Export(address, &handle), CUDA_SUCCESS);
  Holder holder([&handle] {
    MemoryMap other(1, kCapacity);
    CUdeviceptr imported = 0;
    return other.Import(0, handle, &imported) == CUDA_SUCCESS;
  });
  ASSERT_EQ(map_.Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 6 * kPage);
  Allocate(3 * kPage, CUDA_ERROR_OUT_OF_MEMORY);
  Allocate(2 * kPage);
  holder.End();
  EXPECT_EQ(Used(), 2 * kPage);
  Allocate(6 * kPage);
}

TEST_F(MemoryAccountTest, AHandleOfFreedMemoryCannotBeOpenedWhileItIsHeld) {
  const CUdeviceptr address = Allocate(kPage);
  CUipcMemHandle handle;
  ASSERT_EQ(map_.Export(address, &handle), CUDA_SUCCESS);
  const auto import = [&handle] {
    MemoryMap other(1, kCapacity);
    CUdeviceptr imported = 0;
    return other.Import(0, handle, &imported) == CUDA_SUCCESS;
  };
  Holder holder(import);
  ASSERT_EQ(map_.Free(address), CUDA_SUCCESS);
  Holder late([&import] { return !import(); });
}

TEST_F(MemoryAccountTest, AForkedChildHoldsNothing) {
  const CUdeviceptr address = Allocate(kPage);
  Holder child([] { return true; });
  ASSERT_EQ(map_.Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryAccountTest, AnExportedDescriptorHoldsMemoryUntilItsLastCopyIsClosed) {
  const CUmemGenericAllocationHandle handle = Create(4 * kPage);
  int fd = -1;
  ASSERT_EQ(virtual_.Export(handle, &fd), CUDA_SUCCESS);
  Holder holder([] { return true; });  // inherits a copy, as if it had received one
  close(fd);
  EXPECT_EQ(virtual_.Release(handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 4 * kPage);
  holder.End();
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryAccountTest, AMappingOfADescriptorHoldsMemory) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  int fd = -1;
  ASSERT_EQ(virtual_.Export(handle, &fd), CUDA_SUCCESS);
  Holder holder([fd] {
    void* place = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return place != MAP_FAILED;
  });
  close(fd);
  EXPECT_EQ(virtual_.Release(handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(), kPage);
  holder.End();
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryAccountTest, AMappingHoldsMemoryAfterItsHandleIsReleased) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  const uintptr_t range = Reserve(2 * kPage);
  ASSERT_EQ(virtual_.Map(range, kPage, handle), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Release(handle), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Release(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Used(), kPage);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(virtual_.Retain(range + 17, &again), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(virtual_.Release(again), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Unmap(range, kPage), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(virtual_.FreeReservation(range, 2 * kPage), CUDA_SUCCESS);
}

TEST_F(MemoryAccountTest, AnImportIsTheSameMemoryAndIsCountedOnce) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  int fd = -1;
  ASSERT_EQ(virtual_.Export(handle, &fd), CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(virtual_.Import(fd, &imported), CUDA_SUCCESS);
  close(fd);
  const uintptr_t range = Reserve(2 * kPage);
  ASSERT_EQ(virtual_.Map(range, kPage, handle), CUDA_SUCCESS);
  ASSERT_EQ(virtual_.Map(range + kPage, kPage, imported), CUDA_SUCCESS);
  ASSERT_EQ(Open(range, 2 * kPage), CUDA_SUCCESS);
  *reinterpret_cast<char*>(range + 5) = 42;
  EXPECT_EQ(*reinterpret_cast<char*>(range + kPage + 5), 42);
  EXPECT_EQ(Used(), kPage);
  EXPECT_EQ(virtual_.Unmap(range, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Release(handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(), kPage);  // the imported handle still exists
  EXPECT_EQ(virtual_.Release(imported), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 0u);
}

TEST_F(MemoryAccountTest, UnrelatedDescriptorsAreRejected) {
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(virtual_.Import(-1, &handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_.Import(0, &handle), CUDA_ERROR_INVALID_VALUE);
  const UniqueFd outsider(memfd_create("outsider", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(virtual_.Import(outsider.get(), &handle), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryAccountTest, AMappingCannotBeUnmappedInPart) {
  const CUmemGenericAllocationHandle handle = Create(2 * kPage);
  const uintptr_t range = Reserve(4 * kPage);
  ASSERT_EQ(virtual_.Map(range, 2 * kPage, handle), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Unmap(range, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_.Unmap(range, 3 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_.Map(range + kPage, kPage, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_.Map(range + 3 * kPage, 2 * kPage, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(map_.IsKnown(range, 1));  // no access yet
  ASSERT_EQ(Open(range, 2 * kPage), CUDA_SUCCESS);
  EXPECT_TRUE(map_.IsKnown(range, 2 * kPage));
  EXPECT_FALSE(map_.IsKnown(range, 2 * kPage + 1));
  EXPECT_EQ(virtual_.Unmap(range, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(virtual_.Release(handle), CUDA_SUCCESS);
}

// Many allocations in the pattern of an allocator with expandable segments leave nothing behind.
TEST_F(MemoryAccountTest, RepeatedMappingsDoNotLeak) {
  constexpr uint32_t kSeed = 20240;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  constexpr size_t kSlots = 8;
  const uintptr_t range = Reserve(kSlots * kPage);
  CUmemGenericAllocationHandle slots[kSlots] = {};
  for (int round = 0; round < 2000; ++round) {
    const size_t slot = random() % kSlots;
    const uintptr_t address = range + slot * kPage;
    if (slots[slot] == 0) {
      slots[slot] = Create(kPage);
      ASSERT_EQ(virtual_.Map(address, kPage, slots[slot]), CUDA_SUCCESS);
      ASSERT_EQ(Open(address, kPage), CUDA_SUCCESS);
      *reinterpret_cast<char*>(address) = 1;
    } else {
      ASSERT_EQ(virtual_.Unmap(address, kPage), CUDA_SUCCESS);
      ASSERT_EQ(virtual_.Release(slots[slot]), CUDA_SUCCESS);
      slots[slot] = 0;
    }
  }
  size_t held = 0;
  for (size_t i = 0; i < kSlots; ++i) held += slots[i] == 0 ? 0 : 1;
  EXPECT_EQ(Used(), held * kPage);
}

}  // namespace memory_account_test
}  // namespace mccs::emulation
