#include "shim/daemon/join_message.h"

#include <cstring>

#include "base/status_macros.h"
#include "shim/config/environment.h"

namespace mccs::shim {

absl::StatusOr<wire::CommOptions> MakeCommOptions(const CommConfig& config) {
  wire::CommOptions options{};
  MCCS_ASSIGN_OR_RETURN(options.init_timeout_ms, InitTimeoutMs());
  options.warn_after_ms = config.warn_after_ms;
  const Hints& hints = config.hints;
  options.min_channels = hints.min_channels;
  options.max_channels = hints.max_channels;
  options.traffic_class = hints.traffic_class;
  options.service_level = hints.service_level;
  options.buffer_bytes = hints.buffer_bytes;
  std::strncpy(options.algorithms, hints.algorithms.c_str(), sizeof(options.algorithms) - 1);
  std::strncpy(options.protocols, hints.protocols.c_str(), sizeof(options.protocols) - 1);
  std::strncpy(options.name, config.name.c_str(), sizeof(options.name) - 1);
  return options;
}

absl::StatusOr<wire::CommInit> MakeCommInit(const DriverApi& driver, const Membership& member,
                                            const DeviceBinding& device, const CommConfig& config) {
  wire::CommInit message{};
  MCCS_ASSIGN_OR_RETURN(message.options, MakeCommOptions(config));
  std::memcpy(message.unique_id, &member.id, sizeof(message.unique_id));
  message.ranks = member.ranks;
  message.rank = member.rank.value();
  message.device = device.ordinal;
  if (MultiRankGpuAllowed()) message.flags |= wire::kMultiRankGpu;
  if (member.id.guessable != 0) message.flags |= wire::kIdFromEnvironment;
  CUuuid uuid;
  CUresult error = driver.DeviceGetUuid(&uuid, device.ordinal);
  if (error != CUDA_SUCCESS) return CudaError(driver, error, "cuDeviceGetUuid");
  std::memcpy(message.device_uuid, &uuid, sizeof(message.device_uuid));
  error = driver.DeviceGetPCIBusId(message.device_bus_id, sizeof(message.device_bus_id),
                                   device.ordinal);
  if (error != CUDA_SUCCESS) return CudaError(driver, error, "cuDeviceGetPCIBusId");
  return message;
}

}  // namespace mccs::shim
