// mccsd's configuration: a YAML file, which command-line flags override.
#ifndef MCCS_SERVICE_CONFIG_H_
#define MCCS_SERVICE_CONFIG_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/yaml_config.h"
#include "service/daemon.h"
#include "service/rdma_devices.h"
#include "trust/tls_files.h"

namespace mccs {

// A Unix socket for the processes of one tenant.
struct TenantSocket {
  std::string path;
  std::string tenant;  // empty: the tenant is named after the process's user
  unsigned mode = 0666;
};

enum class DeviceChoice : uint8_t {
  kHost,  // the daemon works on host memory
  kGpu,   // kernels of the tenants run collectives
};

// The defaults, but no limits in bytes.
inline HostLimits BytesByMachine() {
  HostLimits limits;
  for (size_t r = 0; r < kResources; ++r) {
    if (kResourceFacts[r].bytes) limits.of[r] = 0;
  }
  return limits;
}

struct Config {
  std::string host;  // empty: the machine's host name
  std::string pod, rack;
  std::string topology;  // name of the Topology that contains this host; empty: any
  std::string socket = "/run/mccs/mccsd.sock";  // for all tenants; empty: none
  std::vector<TenantSocket> sockets;
  std::string socket_dir = "/run/mccs/tenants";  // of the sockets that Tenants declare; empty: none
  bool denies_unknown_tenants = false;           // `unknown_tenants: deny`
  std::string listen = "0.0.0.0:7400";           // numeric after ReadConfig, like advertise
  std::string advertise;                         // empty: derived from listen
  std::string state_dir = "/run/mccs";
  std::string tenants_file;  // empty: tenants.table in state_dir
  std::string TenantsFile() const {
    return tenants_file.empty() ? state_dir + "/tenants.table" : tenants_file;
  }
  std::string controller;      // empty: none
  TlsFiles tls;                // this host's; empty: none
  std::string metrics_listen;  // HTTP, for Prometheus; numeric after ReadConfig; empty: none
  int gpus = 8;
  int workers = -1;  // threads of the host-memory device; −1: chosen from the number of cores
  LogLevel log_level = LogLevel::kInfo;
  DeviceChoice device = DeviceChoice::kHost;
  int channels = 2;
  LaneShape lanes{.slots = 12, .slot_bytes = 96u << 10};
  bool encrypts_lanes = false;  // `lanes: {encryption: on}`
  uint32_t skew = 6;
  ChoiceParameters algorithms;
  BufferLimits buffers;
  // kDescriptors, kMappings: not configurable. Bytes 0: see LimitsOfMachine.
  HostLimits limits = BytesByMachine();
  DscpMap dscp = {};
  TransportChoice transport = TransportChoice::kAuto;
  RdmaConfig rdma;
};

// Reads `path` and applies it to the defaults. Resolves the host names of `listen` and `advertise`:
// may block. kInvalidArgument: lists every error with line, column and key.
absl::StatusOr<Config> ReadConfig(const std::string& path);

// The same of a text; `name` replaces the path in errors. `resolve` turns "HOST:PORT" into an
// address, as ResolveEndpoint does.
using EndpointResolver = absl::FunctionRef<absl::StatusOr<Endpoint>(const std::string& text)>;
absl::StatusOr<Config> ParseConfig(const std::string& text, const std::string& name,
                                   EndpointResolver resolve);

// All keys that ReadConfig accepts.
std::vector<YamlKey> ConfigKeys();

// Parses "HOST:PORT" and resolves the host, because the engine does no look-ups. Blocks.
// kInvalidArgument: names the text.
absl::StatusOr<Endpoint> ResolveEndpoint(const std::string& text);

}  // namespace mccs

#endif  // MCCS_SERVICE_CONFIG_H_
