#include "service/gpus/gpu_problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mccs {
namespace gpu_problems_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr GpuNeeds kNeeds = {.cuda_version = 13000, .compute_capability = 80, .gpus = 4};

// A host with four healthy GPUs.
agent::v1::GpuSurvey Healthy() {
  agent::v1::GpuSurvey survey;
  survey.set_driver_version("580.65.06");
  survey.set_cuda_version(13000);
  for (int i = 0; i < kNeeds.gpus; ++i) {
    agent::v1::GpuCondition* gpu = survey.add_gpus();
    gpu->set_index(i);
    gpu->set_bus_id("0000:1b:00.0");
    gpu->set_name("NVIDIA H100 80GB HBM3");
    gpu->set_compute_capability(90);
    gpu->set_compute_mode("default");
    gpu->set_mig("off");
  }
  return survey;
}

TEST(GpuProblems, HealthyGpusHaveNone) {
  EXPECT_THAT(GpuProblems(Healthy(), kNeeds), IsEmpty());
  EXPECT_EQ(DescribeGpus(Healthy()), "4 × NVIDIA H100 80GB HBM3, driver 580.65.06 (CUDA 13.0)");
  EXPECT_THAT(RenderGpuSurvey(Healthy()), HasSubstr("no problem found"));
}

TEST(GpuProblems, WhatNvmlDoesNotReportIsNoProblem) {
  agent::v1::GpuSurvey survey;
  for (int i = 0; i < kNeeds.gpus; ++i) survey.add_gpus()->set_index(i);
  EXPECT_THAT(GpuProblems(survey, kNeeds), IsEmpty());
  EXPECT_EQ(DescribeGpus(survey), "4 × unknown GPU");
}

TEST(GpuProblems, GpusThatCannotBeReadAreTheOnlyProblem) {
  agent::v1::GpuSurvey survey;
  survey.set_unreadable("no NVIDIA driver: libnvidia-ml.so.1: cannot open shared object file");
  EXPECT_THAT(GpuProblems(survey, kNeeds),
              ElementsAre(AllOf(HasSubstr("cannot be read: no NVIDIA driver: libnvidia-ml.so.1"),
                                HasSubstr("install or repair NVIDIA's driver"))));
  EXPECT_EQ(DescribeGpus(survey), "none");
}

TEST(GpuProblems, ADriverOfAnEarlierMajorVersionIsTooOld) {
  agent::v1::GpuSurvey survey = Healthy();
  survey.set_driver_version("550.54.15");
  survey.set_cuda_version(12040);
  EXPECT_THAT(GpuProblems(survey, kNeeds),
              ElementsAre("driver 550.54.15 supports CUDA 12.4, but the kernels need CUDA 13: no "
                          "communicator starts; update NVIDIA's driver"));
  GpuNeeds later = kNeeds;
  later.cuda_version = 13020;  // a minor version does not matter
  EXPECT_THAT(GpuProblems(Healthy(), later), IsEmpty());
}

TEST(GpuProblems, TheNumberOfGpusDiffersFromTheConfiguration) {
  agent::v1::GpuSurvey survey = Healthy();
  survey.mutable_gpus()->RemoveLast();
  EXPECT_THAT(GpuProblems(survey, kNeeds),
              ElementsAre("the driver has 3 GPUs, but `gpus` is 4 in mccsd's configuration; "
                          "correct it, or repair the GPUs"));
}

TEST(GpuProblems, ExclusiveModeMigAndOldGpusNameTheGpusAndTheRemedy) {
  agent::v1::GpuSurvey survey = Healthy();
  survey.mutable_gpus(1)->set_compute_mode("exclusive_process");
  survey.mutable_gpus(2)->set_compute_mode("exclusive_process");
  survey.mutable_gpus(0)->set_compute_mode("prohibited");
  survey.mutable_gpus(3)->set_mig("on");
  survey.mutable_gpus(3)->set_compute_capability(70);
  const std::vector<std::string> problems = GpuProblems(survey, kNeeds);
  EXPECT_THAT(
      problems,
      ElementsAre("GPU 3: compute capability 7.0, but the kernels need 8.0: no communicator starts "
                  "there; use newer GPUs",
                  "GPUs 1, 2: compute mode exclusive_process: ranks of several processes cannot "
                  "share a GPU; nvidia-smi -i 1,2 -c 0",
                  "GPU 0: compute mode prohibited: no program can use it; nvidia-smi -i 0 -c 0",
                  AllOf(HasSubstr("GPU 3: MIG is on"), HasSubstr("nvidia-smi -i 3 -mig 0"))));
  for (const std::string& problem : problems) survey.add_problems(problem);
  EXPECT_THAT(RenderGpuSurvey(survey),
              HasSubstr("compute capability 9.0  compute mode exclusive_process  MIG off\n"));
}

TEST(GpuProblems, AGpuThatDoesNotAnswerNamesTheError) {
  agent::v1::GpuSurvey survey = Healthy();
  survey.mutable_gpus(2)->Clear();
  survey.mutable_gpus(2)->set_index(2);
  survey.mutable_gpus(2)->set_error("GPU is lost");
  EXPECT_THAT(
      GpuProblems(survey, kNeeds),
      ElementsAre(AllOf(HasSubstr("GPU 2 cannot be read (GPU is lost)"), HasSubstr("Xid"))));
}

TEST(GpuProblems, PairsWithoutAccessShareALine) {
  agent::v1::GpuSurvey survey = Healthy();
  for (int one = 0; one < 4; ++one) {
    for (int other = one + 1; other < 4; ++other) {
      agent::v1::GpuPair* pair = survey.add_without_access();
      pair->set_one(one);
      pair->set_other(other);
      pair->set_cause("the chipset does not support it");
    }
  }
  EXPECT_THAT(GpuProblems(survey, kNeeds),
              ElementsAre(HasSubstr("GPUs 0-1, 0-2, 0-3 and 3 more: no access to each other's "
                                    "memory (the chipset does not support it)")));
}

TEST(LeastComputeCapability, IsTheLowestArchitectureOfTheImage) {
  EXPECT_EQ(LeastComputeCapability("sm_90, sm_80, sm_100, PTX 10.0 of CUDA 13.0"), 80);
  EXPECT_EQ(LeastComputeCapability("none, because mccsd is built with sanitizers"), 0);
}

}  // namespace gpu_problems_test
}  // namespace mccs
