#include "service/host_commands.h"

#include <sys/prctl.h>

#include <csignal>
#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "kernels/run_commands_image.h"
#include "service/device/kernel_image.h"
#include "service/gpus/nvml_survey.h"
#include "service/machine_parts.h"
#include "service/process_limits.h"
#include "service/rdma_devices.h"
#include "topology/host_discovery.h"

namespace mccs {

int CheckGpus(const Config& config) {
  agent::v1::GpuSurvey survey = SurveyByNvml(kNvmlLibrary);
  AddGpuProblems(NeedsOf(config), &survey);
  std::cout << RenderGpuSurvey(survey) << std::flush;
  return std::cout && survey.problems().empty() ? 0 : 1;
}

int CheckRdma(const Config& config) {
  const absl::StatusOr<HostInventory> inventory =
      DiscoverHost({.name = config.host, .gpu_count = config.gpus});
  if (!inventory.ok()) {
    std::cerr << "mccsd: " << inventory.status().message() << "\n";
    return 1;
  }
  const absl::StatusOr<Endpoint> listen = ParseEndpoint(config.listen);
  if (!listen.ok()) {
    std::cerr << "mccsd: " << listen.status().message() << "\n";
    return 1;
  }
  RaiseLockedMemory();  // as a daemon does
  const RdmaSurvey survey = SurveyRdma(config.rdma, *listen, *inventory);
  std::cout << RenderSurvey(survey) << std::flush;
  return std::cout && WhyNoRdma(survey).empty() ? 0 : 1;
}

int PrintTopology(const Config& config) {
  const absl::StatusOr<HostInventory> inventory =
      DiscoverHost({.name = config.host, .gpu_count = config.gpus});
  const absl::StatusOr<MachineParts> parts =
      inventory.ok() ? DiscoverMachine({.inventory = *inventory, .hwloc_xml = ""})
                     : absl::StatusOr<MachineParts>(inventory.status());
  if (!parts.ok()) {
    std::cerr << "mccsd: " << parts.status().message() << "\n";
    return 1;
  }
  std::cout << HostTopologyYaml(
                   {.host = config.host, .rack = config.rack, .configured_gpus = config.gpus},
                   *parts)
            << std::flush;
  return std::cout ? 0 : 1;
}

int SurveyGpus() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::cout << SurveyByNvml(kNvmlLibrary).SerializeAsString() << std::flush;
  return std::cout ? 0 : 1;
}

GpuNeeds NeedsOf(const Config& config) {
  return {.cuda_version = mccs_run_commands_cuda_version,
          .compute_capability = LeastComputeCapability(mccs_run_commands_architectures),
          .gpus = config.gpus};
}

}  // namespace mccs
