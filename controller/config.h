// Configuration of mccs-controller: defaults, overridden by a YAML file, overridden by the command
// line.
#ifndef MCCS_CONTROLLER_CONFIG_H_
#define MCCS_CONTROLLER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/yaml_config.h"
#include "controller/state/operator_roles.h"
#include "trust/tls_files.h"
#include "trust/tokens/token_verifier.h"

namespace mccs {

struct ControllerConfig {
  std::string listen = "127.0.0.1:7500";
  std::string state_dir;       // directory; empty: no files are written
  std::string store;           // file; empty: state is kept in memory
  std::string metrics_listen;  // HTTP address for Prometheus; empty: none
  LogLevel log_level = LogLevel::kInfo;
  int64_t heartbeat_timeout_ns = 5 * kNsPerSec;
  bool calibrate_costs = true;
  TlsFiles tls;
  TokenRules tokens;  // empty: operators have certificates
  std::vector<OperatorRole> operators = {FirstOperator()};
  bool insecure = false;  // serve other machines without `tls`
};

inline constexpr int64_t kShortestHeartbeatTimeoutNs = 100 * kNsPerMs;

// kInvalidArgument or kNotFound, with one line per error: place and cause.
absl::Status ReadControllerConfig(const std::string& path, ControllerConfig* config);

// The same of a text; `name` replaces the path in errors.
absl::Status ParseControllerConfig(const std::string& text, const std::string& name,
                                   ControllerConfig* config);

// kFailedPrecondition: the address is reachable for other machines, and clients would not have to
// prove who they are.
absl::Status CheckExposure(const ControllerConfig& config);

// All keys that ReadControllerConfig accepts.
std::vector<YamlKey> ControllerConfigKeys();

// "ADDRESS:PORT" with a port from 0 to 65535; IPv6 in brackets. kInvalidArgument names the invalid
// part.
absl::Status CheckListenAddress(const std::string& address);

// A duration such as "5s" or "1.5s" (absl::ParseDuration), at least kShortestHeartbeatTimeoutNs.
absl::StatusOr<int64_t> ParseHeartbeatTimeout(const std::string& word);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CONFIG_H_
