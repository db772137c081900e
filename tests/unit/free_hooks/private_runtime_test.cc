// A program without CUDA that opens a library linked with CUDA privately, as an interpreter opens
// its extensions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "free_hooks/listener.h"

namespace mccs {
namespace private_runtime_test {

std::atomic<int> notifications{0};

// Runs first, before the library is opened.
TEST(NoRuntime, FreeIsAnError) {
  const auto free_memory = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_DEFAULT, "cudaFree"));
  if (free_memory == nullptr) GTEST_SKIP() << "run with LD_PRELOAD=libmccs-free-hooks.so";
  EXPECT_EQ(free_memory(nullptr), 302);  // cudaErrorSharedObjectSymbolNotFound
}

TEST(PrivateRuntime, FreesAreReportedAndForwarded) {
  const auto listen =
      reinterpret_cast<free_hooks::Listen>(dlsym(RTLD_DEFAULT, free_hooks::kListen));
  if (listen == nullptr) GTEST_SKIP() << "run with LD_PRELOAD=libmccs-free-hooks.so";
  ASSERT_EQ(dlsym(RTLD_DEFAULT, "cudaMalloc"), nullptr) << "the runtime is visible globally";
  listen([](uint64_t, uint64_t) { ++notifications; });
  void* const extension = dlopen(MCCS_TEST_EXTENSION, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(extension, nullptr) << dlerror();
  const auto run = reinterpret_cast<int (*)()>(dlsym(extension, "allocate_and_free"));
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run(), 0);
  EXPECT_GE(notifications, 1);
  listen(nullptr);
}

}  // namespace private_runtime_test
}  // namespace mccs
