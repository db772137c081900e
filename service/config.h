// mccsd's configuration: a YAML file, with flags over it.
#ifndef MCCS_SERVICE_CONFIG_H_
#define MCCS_SERVICE_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "service/daemon.h"

namespace mccs {

// A socket whose openers are one tenant.
struct TenantSocket {
  std::string path;
  std::string tenant;  // empty: the user of the process is the tenant
  unsigned mode = 0666;
};

struct Config {
  std::string host;  // empty: the machine's host name
  std::string pod, rack;
  std::string topology;  // name of the Topology that this host is believed to stand in; empty: any
  std::string socket = "/run/mccs/mccsd.sock";  // common; empty: none
  std::vector<TenantSocket> sockets;
  std::string listen = "0.0.0.0:7400";  // as advertise, numeric once read
  std::string advertise;                // empty: derived from listen
  std::string state_dir = "/run/mccs";
  std::string controller;      // empty: none
  std::string metrics_listen;  // HTTP, for Prometheus; numeric once read; empty: none
  int gpus = 8;
  int workers = -1;  // of the host-memory device; −1: by the machine's cores
  LogLevel log_level = LogLevel::kInfo;
  int channels = 2;
  LaneShape lanes{.slots = 12, .slot_bytes = 96u << 10};
  uint32_t skew = 6;
  ChoiceParameters algorithms;
  BufferLimits buffers;
  Markings dscp = {};
};

// Reads `path` over the defaults, and looks up the host names of `listen` and `advertise`: may
// block. kInvalidArgument: every error with line, column and word.
absl::StatusOr<Config> ReadConfig(const std::string& path);

// "HOST:PORT" with the host looked up, as the engine wants it: it does no look-ups. Blocks.
// kInvalidArgument with the text.
absl::StatusOr<Endpoint> ResolveEndpoint(const std::string& text);

}  // namespace mccs

#endif  // MCCS_SERVICE_CONFIG_H_
