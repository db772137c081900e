// Host versions of kernels: their registration, and shared objects that have some.

#include "emulation/core/kernel_table.h"

#include <gtest/gtest.h>

namespace mccs::emulation {
namespace kernel_table_test {

int g_runs = 0;
void CountRun(const MccsEmulatedLaunch*, void* const*) { ++g_runs; }
void* Begin(const MccsEmulatedLaunch*, void* const*) { return nullptr; }
int Advance(void*, MccsEmulatedWait*) { return MCCS_EMULATED_FINISHED; }
void End(void*) {}

TEST(KernelTable, LoadsBothKindsFromASharedObject) {
  KernelTable table(MCCS_TEST_KERNELS);
  const auto ordinary = table.Find("_Z8ordinaryv");
  ASSERT_NE(ordinary, nullptr);
  EXPECT_NE(ordinary->run, nullptr);
  EXPECT_EQ(ordinary->resumable.advance, nullptr);
  const auto resumable = table.Find("_Z9resumablei");
  ASSERT_NE(resumable, nullptr);
  EXPECT_EQ(resumable->run, nullptr);
  EXPECT_NE(resumable->resumable.begin, nullptr);
  EXPECT_NE(resumable->resumable.advance, nullptr);
  EXPECT_NE(resumable->resumable.end, nullptr);
  EXPECT_EQ(resumable->argument_bytes, std::vector<uint32_t>{sizeof(int)});
}

TEST(KernelTable, ReportsAnObjectWithoutKernels) {
  testing::internal::CaptureStderr();
  KernelTable table("libc.so.6");
  EXPECT_EQ(table.Find("_Z8ordinaryv"), nullptr);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("libc.so.6 exports neither"), std::string::npos) << printed;
}

TEST(KernelTable, TheLatestRegistrationOfANameCounts) {
  KernelTable table("");
  const MccsEmulatedKernel ordinary{
      sizeof(MccsEmulatedKernel), "_Z4samev", CountRun, 0, nullptr, 0};
  const MccsEmulatedResumableKernel resumable{
      sizeof(MccsEmulatedResumableKernel), "_Z4samev", Begin, Advance, End, 0, nullptr, 0};
  EXPECT_TRUE(table.Register(ordinary));
  const PreparedLaunch first(table.Find("_Z4samev"), {}, nullptr);
  EXPECT_TRUE(table.Register(resumable));
  const PreparedLaunch second(table.Find("_Z4samev"), {}, nullptr);
  EXPECT_FALSE(first.resumable());
  EXPECT_TRUE(second.resumable());
  first();
  EXPECT_EQ(g_runs, 1) << "a prepared launch keeps its kernel";
}

}  // namespace kernel_table_test
}  // namespace mccs::emulation
