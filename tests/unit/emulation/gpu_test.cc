// The GPUs that a process sees, according to the environment.

#include "emulation/core/gpu.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace mccs::emulation {
namespace gpu_test {

std::vector<int> Visible(const std::string& devices, int gpus = 4) {
  Options options;
  options.host = "h0";
  options.gpus = gpus;
  options.visible_devices = devices;
  std::vector<int> ordinals;
  for (const GpuIdentity& gpu : VisibleGpus(options)) ordinals.push_back(gpu.physical);
  return ordinals;
}

TEST(Gpu, IdentityFollowsFromHostAndOrdinalAlone) {
  EXPECT_EQ(IdentifyGpu("h0", 1).UuidText(), IdentifyGpu("h0", 1).UuidText());
  EXPECT_NE(IdentifyGpu("h0", 1).UuidText(), IdentifyGpu("h0", 2).UuidText());
  EXPECT_NE(IdentifyGpu("h0", 1).UuidText(), IdentifyGpu("h1", 1).UuidText());
  EXPECT_EQ(IdentifyGpu("h0", 1).PciAddress(), "0000:20:00.0");
  EXPECT_EQ(IdentifyGpu("h0", 15).PciAddress(), "0001:20:00.0");
  EXPECT_EQ(IdentifyGpu("h0", 0).UuidText().size(), std::string("GPU-").size() + 36);
}

TEST(Gpu, VisibleDevicesAreListedInTheirOrder) {
  EXPECT_EQ(Visible("2,0"), (std::vector<int>{2, 0}));
  EXPECT_EQ(Visible(" 3 , 1"), (std::vector<int>{3, 1}));
  const std::string uuid = IdentifyGpu("h0", 2).UuidText();
  EXPECT_EQ(Visible(uuid + ",1"), (std::vector<int>{2, 1}));
  EXPECT_EQ(Visible(uuid.substr(0, 12)), (std::vector<int>{2}));
}

TEST(Gpu, TheListEndsBeforeItsFirstInvalidEntry) {
  EXPECT_EQ(Visible("1,9,0"), (std::vector<int>{1}));
  EXPECT_EQ(Visible("-1"), std::vector<int>{});
  EXPECT_EQ(Visible(""), std::vector<int>{});
  EXPECT_EQ(Visible("GPU-"), std::vector<int>{});  // ambiguous prefix
  EXPECT_EQ(Visible("0,0"), std::vector<int>{});
}

TEST(Options, BytesHaveSuffixes) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("80G"), 80ull << 30);
  EXPECT_EQ(ParseBytes("3M"), 3ull << 20);
  EXPECT_EQ(ParseBytes("1.5G"), std::nullopt);
  EXPECT_EQ(ParseBytes("lots"), std::nullopt);
  EXPECT_EQ(ParseBytes("99999999T"), std::nullopt);
}

TEST(Options, PeerAccessIsListedByPairs) {
  EXPECT_TRUE(ParsePeerPairs("all")->Reaches(0, 5));
  EXPECT_FALSE(ParsePeerPairs("none")->Reaches(0, 1));
  EXPECT_TRUE(ParsePeerPairs("none")->Reaches(1, 1)) << "its own memory";
  const PeerPairs pairs = *ParsePeerPairs("0-1,3-2");
  EXPECT_TRUE(pairs.Reaches(1, 0));
  EXPECT_TRUE(pairs.Reaches(2, 3));
  EXPECT_FALSE(pairs.Reaches(1, 2));
  for (const char* malformed : {"", "0", "0-", "0-0", "0-1;2-3", "0-1x", "some"})
    EXPECT_FALSE(ParsePeerPairs(malformed)) << malformed;
}

TEST(Options, AnInvalidVariableStopsTheStart) {
  ASSERT_EQ(setenv("MCCS_EMULATED_GPUS", "3", 1), 0);
  EXPECT_EQ(ReadOptions()->gpus, 3);
  ASSERT_EQ(setenv("MCCS_EMULATED_GPUS", "three", 1), 0);
  EXPECT_FALSE(ReadOptions());
  ASSERT_EQ(unsetenv("MCCS_EMULATED_GPUS"), 0);
  ASSERT_EQ(setenv("MCCS_EMULATED_CONNECTIONS", "0", 1), 0);
  EXPECT_FALSE(ReadOptions());
  ASSERT_EQ(unsetenv("MCCS_EMULATED_CONNECTIONS"), 0);
  EXPECT_TRUE(ReadOptions());
}

TEST(Options, TheTwoFaultsAreIndependent) {
  setenv("MCCS_EMULATED_LAUNCH_FAULT", "1:20:701", 1);
  const Options options = *ReadOptions();
  EXPECT_FALSE(options.fault.has_value());
  ASSERT_TRUE(options.launch_fault.has_value());
  EXPECT_EQ(options.launch_fault->device, 1);
  EXPECT_EQ(options.launch_fault->launches, 20);
  EXPECT_EQ(options.launch_fault->error, 701);
  setenv("MCCS_EMULATED_LAUNCH_FAULT", "1:20", 1);
  EXPECT_FALSE(ReadOptions());
  unsetenv("MCCS_EMULATED_LAUNCH_FAULT");
}

TEST(Options, WhatNvmlReportsIsReadAndChecked) {
  EXPECT_FALSE(ReadOptions()->nvml.HasMig(0));
  setenv("MCCS_EMULATED_MIG", "0,2", 1);
  setenv("MCCS_EMULATED_COMPUTE_MODE", "prohibited", 1);
  const NvmlState state = ReadOptions()->nvml;
  EXPECT_TRUE(state.HasMig(0) && state.HasMig(2) && !state.HasMig(1));
  EXPECT_EQ(state.compute_mode, 2);
  EXPECT_FALSE(state.hangs);
  setenv("MCCS_EMULATED_MIG", "all", 1);
  EXPECT_TRUE(ReadOptions()->nvml.HasMig(7));
  for (const auto& [name, text] :
       {std::pair("MCCS_EMULATED_MIG", "some"), std::pair("MCCS_EMULATED_MIG", "0;1"),
        std::pair("MCCS_EMULATED_COMPUTE_MODE", "exclusive"),
        std::pair("MCCS_EMULATED_NVML", "1")}) {
    setenv(name, text, 1);
    EXPECT_FALSE(ReadOptions()) << name << "=" << text;
    unsetenv(name);
  }
  unsetenv("MCCS_EMULATED_COMPUTE_MODE");
}

TEST(Options, CudasVariableSetsTheNumberOfHardwareQueues) {
  const auto connections = [](const char* cudas) {
    if (cudas != nullptr) setenv("CUDA_DEVICE_MAX_CONNECTIONS", cudas, 1);
    const int found = ReadOptions()->connections;
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return found;
  };
  EXPECT_EQ(connections(nullptr), 8);
  EXPECT_EQ(connections("1"), 1);
  EXPECT_EQ(connections("32"), 32);
  EXPECT_EQ(connections("33"), 8);
  EXPECT_EQ(connections("many"), 8);
  setenv("MCCS_EMULATED_CONNECTIONS", "64", 1);
  EXPECT_EQ(connections("1"), 64) << "MCCS_EMULATED_CONNECTIONS takes precedence";
  unsetenv("MCCS_EMULATED_CONNECTIONS");
}

}  // namespace gpu_test
}  // namespace mccs::emulation
