// Problems of a host's GPUs that prevent or slow programs, with remedies, from what NVML reports.
// Pure.
#ifndef MCCS_SERVICE_GPUS_GPU_PROBLEMS_H_
#define MCCS_SERVICE_GPUS_GPU_PROBLEMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "proto/agent.pb.h"

namespace mccs {

// Needs of the tenants' kernels (kernels/run_commands_image.h), and the configuration.
struct GpuNeeds {
  int cuda_version = 0;        // of the image's compiler: 13000
  int compute_capability = 0;  // the lowest one: 80
  int gpus = 0;                // `gpus` in mccsd's configuration
};

// The lowest compute capability that an image is compiled for, from "sm_80, sm_90, …": 80.
// 0: the text names none.
int LeastComputeCapability(std::string_view architectures);

// One line each: "what: effect; remedy". GPUs with the same problem share a line.
std::vector<std::string> GpuProblems(const agent::v1::GpuSurvey& survey, const GpuNeeds& needs);

// Adds them to the survey. REQUIRES: it has none.
void AddGpuProblems(const GpuNeeds& needs, agent::v1::GpuSurvey* survey);

// "8 × NVIDIA H100 80GB HBM3, driver 580.65.06 (CUDA 13.0)"; "none" if there are none.
std::string DescribeGpus(const agent::v1::GpuSurvey& survey);

// For `mccsd --check-gpus`: a line for each GPU, then the problems. `problems` are set.
std::string RenderGpuSurvey(const agent::v1::GpuSurvey& survey);

}  // namespace mccs

#endif  // MCCS_SERVICE_GPUS_GPU_PROBLEMS_H_
