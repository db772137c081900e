// The survey of the emulated NVML, which the test loads by its path.
#include "service/gpus/nvml_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace mccs {
namespace nvml_survey_test {

using testing::HasSubstr;

TEST(NvmlSurvey, ReadsTheEmulatedGpus) {
  setenv("MCCS_EMULATED_HOST", "h0", 1);
  setenv("MCCS_EMULATED_GPUS", "3", 1);
  setenv("MCCS_EMULATED_MIG", "1", 1);
  setenv("MCCS_EMULATED_COMPUTE_MODE", "exclusive_process", 1);
  setenv("MCCS_EMULATED_PEER_ACCESS", "0-1,0-2", 1);
  const agent::v1::GpuSurvey survey = SurveyByNvml(MCCS_EMULATED_NVML);
  EXPECT_EQ(survey.unreadable(), "");
  EXPECT_EQ(survey.driver_version(), "580.0");
  EXPECT_EQ(survey.cuda_version(), 13000);
  ASSERT_EQ(survey.gpus_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const agent::v1::GpuCondition& gpu = survey.gpus(i);
    EXPECT_EQ(gpu.index(), i);
    EXPECT_EQ(gpu.error(), "");
    EXPECT_THAT(gpu.name(), HasSubstr("H100"));
    EXPECT_THAT(gpu.bus_id(), testing::MatchesRegex("[0-9a-f]{4}:[0-9a-f]{2}:00\\.0"));
    EXPECT_EQ(gpu.compute_capability(), 90);
    EXPECT_EQ(gpu.compute_mode(), "exclusive_process");
    EXPECT_EQ(gpu.mig(), i == 1 ? "on" : "off");
  }
  ASSERT_EQ(survey.without_access_size(), 1);
  EXPECT_EQ(survey.without_access(0).one(), 1);
  EXPECT_EQ(survey.without_access(0).other(), 2);
  EXPECT_EQ(survey.without_access(0).cause(), "the PCIe topology does not support it");
}

TEST(NvmlSurvey, ReportsALibraryThatIsMissing) {
  const agent::v1::GpuSurvey survey = SurveyByNvml("libno-such-nvml.so.1");
  EXPECT_THAT(survey.unreadable(), HasSubstr("no NVIDIA driver: libno-such-nvml.so.1"));
  EXPECT_EQ(survey.gpus_size(), 0);
}

TEST(NvmlSurvey, RejectsALibraryWithoutNvml) {
  EXPECT_THAT(SurveyByNvml("libc.so.6").unreadable(), HasSubstr("lacks functions of NVML"));
}

}  // namespace nvml_survey_test
}  // namespace mccs
