// A CUDA program that preloads libmccs-free-hooks.so before its runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "free_hooks/listener.h"

namespace mccs {
namespace free_hooks_test {

using testing::Contains;
using testing::Each;
using testing::IsEmpty;

using Notification = std::pair<uint64_t, uint64_t>;
std::vector<Notification> notifications;

free_hooks::Listen FindListen() {
  return reinterpret_cast<free_hooks::Listen>(dlsym(RTLD_DEFAULT, free_hooks::kListen));
}

class FreeHooks : public testing::Test {
 protected:
  void SetUp() override {
    if (FindListen() == nullptr) GTEST_SKIP() << "run with LD_PRELOAD=libmccs-free-hooks.so";
    notifications.clear();
    FindListen()(
        [](uint64_t address, uint64_t bytes) { notifications.emplace_back(address, bytes); });
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    if (FindListen() != nullptr) FindListen()(nullptr);
  }

  static void* Allocate() {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    return memory;
  }
  static bool IsAllocated(const void* memory) {
    unsigned long long id = 0;
    return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                 reinterpret_cast<CUdeviceptr>(memory)) == CUDA_SUCCESS;
  }
  static Notification FreeOf(const void* memory) { return {reinterpret_cast<uint64_t>(memory), 1}; }
};

TEST_F(FreeHooks, AreReportedBeforehand) {
  static void* memory;
  static bool was_allocated;
  memory = Allocate();
  was_allocated = false;
  FindListen()([](uint64_t address, uint64_t bytes) {
    notifications.emplace_back(address, bytes);
    was_allocated = IsAllocated(memory);
  });
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_TRUE(was_allocated);
  EXPECT_FALSE(IsAllocated(memory));
  EXPECT_THAT(notifications, Each(FreeOf(memory)));
  EXPECT_FALSE(notifications.empty());
}

TEST_F(FreeHooks, ReportFreesOfTheDriver) {
  void* memory = Allocate();
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), CUDA_SUCCESS);
  EXPECT_THAT(notifications, Contains(FreeOf(memory)));
  EXPECT_FALSE(IsAllocated(memory));
}

TEST_F(FreeHooks, ForwardFreesOfNullAndForeignMemory) {
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_THAT(notifications, IsEmpty());
  int on_the_stack = 0;
  EXPECT_EQ(cudaFree(&on_the_stack), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_F(FreeHooks, ForwardFreesWithoutAListener) {
  FindListen()(nullptr);
  void* memory = Allocate();
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_FALSE(IsAllocated(memory));
  EXPECT_THAT(notifications, IsEmpty());
}

// An address at which nothing is mapped, according to the driver.
constexpr CUdeviceptr kNowhere = 0x10000;

TEST_F(FreeHooks, ReportTheRangeOfUnmaps) {
  EXPECT_NE(cuMemUnmap(kNowhere, 1 << 21), CUDA_SUCCESS);
  EXPECT_THAT(notifications, Contains(Notification(kNowhere, 1 << 21)));
}

// As PyTorch looks up the driver's functions.
TEST_F(FreeHooks, ReportFreesThroughAddressesFromTheRuntime) {
  void* unmap = nullptr;
  void* allocate = nullptr;
  cudaDriverEntryPointQueryResult found{};
  ASSERT_EQ(
      cudaGetDriverEntryPointByVersion("cuMemUnmap", &unmap, 12000, cudaEnableDefault, &found),
      cudaSuccess);
  ASSERT_EQ(
      cudaGetDriverEntryPointByVersion("cuMemAlloc", &allocate, 12000, cudaEnableDefault, &found),
      cudaSuccess);
  reinterpret_cast<CUresult (*)(CUdeviceptr, size_t)>(unmap)(kNowhere, 4096);
  EXPECT_THAT(notifications, Contains(Notification(kNowhere, 4096)));
  EXPECT_EQ(allocate, reinterpret_cast<void*>(&cuMemAlloc)) << "other functions are unchanged";
}

TEST_F(FreeHooks, ReportFreesThroughAddressesFromTheDriver) {
  void* free_memory = nullptr;
  CUdriverProcAddressQueryResult found{};
  ASSERT_EQ(cuGetProcAddress("cuMemFree", &free_memory, 12000, 0, &found), CUDA_SUCCESS);
  void* memory = Allocate();
  EXPECT_EQ(reinterpret_cast<CUresult (*)(CUdeviceptr)>(free_memory)(
                reinterpret_cast<CUdeviceptr>(memory)),
            CUDA_SUCCESS);
  EXPECT_THAT(notifications, Contains(FreeOf(memory)));
  EXPECT_FALSE(IsAllocated(memory));
}

TEST_F(FreeHooks, UnknownNameStaysAnError) {
  void* none = nullptr;
  CUdriverProcAddressQueryResult found{};
  (void)cuGetProcAddress("cuMemFreeTwice", &none, 12000, 0, &found);
  EXPECT_EQ(none, nullptr);
}

}  // namespace free_hooks_test
}  // namespace mccs
