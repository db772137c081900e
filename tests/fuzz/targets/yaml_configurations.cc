// The configuration of mccsd or of mccs-controller as YAML: rejected with the position of each
// error, or read with every value within its limits.
//
// FUZZES: service/config.cc controller/config.cc base/yaml_config.cc base/units.cc base/endpoint.cc
// FUZZES: trust/tls_fields.cc
#include <string>

#include "base/check.h"
#include "controller/config.h"
#include "service/config.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace yaml_configurations_fuzz {

void CheckRejection(const absl::Status& status) {
  MCCS_CHECK(absl::IsInvalidArgument(status));
  MCCS_CHECK(status.message().find("a.yaml:") != std::string_view::npos);
}

void RunDaemon(const std::string& text) {
  // Instead of name servers: names are unknown.
  const auto resolve = [](const std::string& endpoint) -> absl::StatusOr<Endpoint> {
    absl::StatusOr<Endpoint> parsed = ParseEndpoint(endpoint);
    if (parsed.ok() && !IsNumericAddress(parsed->host)) {
      return absl::InvalidArgumentError("unknown host");
    }
    return parsed;
  };
  const absl::StatusOr<Config> config = ParseConfig(text, "a.yaml", resolve);
  if (!config.ok()) return CheckRejection(config.status());
  MCCS_CHECK(config->channels >= 1 && config->channels <= kMaxChannels);
  MCCS_CHECK(config->lanes.slots >= 2 && config->lanes.slots <= kMaxLaneSlots);
  MCCS_CHECK(config->lanes.slot_bytes >= kMinSlotBytes &&
             config->lanes.slot_bytes <= kMaxSlotBytes);
  MCCS_CHECK(config->skew < config->lanes.slots);
  MCCS_CHECK(ValidateChoice(config->algorithms).ok());
  for (const TenantSocket& socket : config->sockets) MCCS_CHECK(socket.mode <= 0777);
  for (const uint8_t mark : config->dscp) MCCS_CHECK(mark <= kMaxDscp);
}

void RunController(const std::string& text) {
  ControllerConfig config;
  const absl::Status read = ParseControllerConfig(text, "a.yaml", &config);
  if (!read.ok()) return CheckRejection(read);
  MCCS_CHECK(config.heartbeat_timeout_ns >= kShortestHeartbeatTimeoutNs);
  MCCS_CHECK(CheckListenAddress(config.listen).ok());
  const absl::Status exposure = CheckExposure(config);
  MCCS_CHECK(exposure.ok() || !exposure.message().empty());
}

void Run(FuzzInput input) {
  const bool daemon = input.Byte() % 2 == 0;
  const std::string text = input.Rest();
  if (daemon) {
    RunDaemon(text);
  } else {
    RunController(text);
  }
}

const FuzzTarget kTarget("yaml_configurations", Run);

}  // namespace yaml_configurations_fuzz
}  // namespace mccs
