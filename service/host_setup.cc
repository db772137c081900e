#include "service/host_setup.h"

#include <cstdio>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "emulation/include/mccs_emulation_pci.h"
#include "kernels/run_commands_image.h"
#include "service/device/mapping_threads.h"
#include "service/machine_parts.h"

namespace mccs {

absl::StatusOr<OpenedRdma> OpenTransport(const Config& config, const RdmaSurvey& survey,
                                         Reactor& reactor, std::function<void()> wake,
                                         Random& random, const Clock& clock, Log& log) {
  OpenedRdma tcp;
  tcp.description = "tcp (`transport: tcp`)";
  if (config.encrypts_lanes) tcp.description = "tcp, encrypted (`lanes: {encryption: on}`)";
  if (config.transport == TransportChoice::kTcp || config.encrypts_lanes) return tcp;
  std::string why = WhyNoRdma(survey);
  if (why.empty()) {
    absl::StatusOr<OpenedRdma> opened =
        OpenRdma(config.rdma, survey, reactor, std::make_unique<MappingThreads>(std::move(wake)),
                 random, clock, log);
    if (opened.ok()) {
      log.Info("lanes to hosts with RDMA use it: ", opened->description,
               "; tenants' host memory is registered by ibv_reg_mr");
      const std::string not_on_gpus = opened->transport->WhyNotOnGpus();
      if (config.device == DeviceChoice::kGpu) {
        log.Info(not_on_gpus.empty() ? "NICs register memory on GPUs by dma-bufs"
                                     : absl::StrCat("NICs do not register memory on GPUs, so that "
                                                    "collectives are staged in host memory: ",
                                                    not_on_gpus));
      }
      return opened;
    }
    why = std::string(opened.status().message());
  }
  if (config.transport == TransportChoice::kRdma) {
    return absl::FailedPreconditionError(
        absl::StrCat("`transport: rdma` in the configuration, but RDMA cannot be used: ", why));
  }
  log.Info("lanes use TCP: ", why);
  tcp.description = absl::StrCat("tcp (", why.substr(0, why.find(';')), ")");
  return tcp;
}

int WorkersFor(const Config& config) {
  if (config.workers >= 0) return config.workers;
  // The engine's thread works too; a second worker helps only with enough cores.
  return std::thread::hardware_concurrency() > 2 ? 2 : 1;
}

std::string AddressFor(const Endpoint& listen, const HostInventory& inventory) {
  if (!IsWildcardAddress(listen.host)) return listen.host;
  return inventory.nics.empty() ? "127.0.0.1" : inventory.nics.front().addresses.front();
}

absl::Status NameGpus(const Config& config, HostInventory* inventory) {
  if (config.device == DeviceChoice::kGpu) {
    MCCS_ASSIGN_OR_RETURN(const MachineParts parts,
                          DiscoverMachine({.inventory = *inventory, .hwloc_xml = ""}));
    if (!parts.gpus.empty()) {
      inventory->gpus = InventoryGpus(parts);
      return absl::OkStatus();
    }
  }
  for (GpuInfo& gpu : inventory->gpus) {
    char bus_id[32];
    snprintf(bus_id, sizeof(bus_id), MCCS_EMULATION_PCI_FORMAT,
             MCCS_EMULATION_PCI_DOMAIN(gpu.index), MCCS_EMULATION_PCI_BUS(gpu.index));
    gpu.bus_id = bus_id;
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelImage> RunCommandsImage() {
  const std::span bytes(mccs_run_commands_image, mccs_run_commands_image_end);
  return MakeKernelImage(std::as_bytes(bytes), mccs_run_commands_architectures);
}

ChoiceParameters AlgorithmsFor(const Config& config) {
  ChoiceParameters result = config.algorithms;
  if (config.device == DeviceChoice::kGpu && result.rules.size() < kMaxAlgorithmRules)
    result.rules.push_back({.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect});
  return result;
}

}  // namespace mccs
