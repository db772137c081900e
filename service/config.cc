#include "service/config.h"

#include <charconv>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/yaml_config.h"
#include "trust/tls_fields.h"

namespace mccs {
namespace {

void ReadSockets(YamlReader& yaml, Config* config) {
  for (YamlReader& entry : yaml.Children("sockets")) {
    TenantSocket socket;
    std::string mode = "0666";
    entry.Field("path", &socket.path, Need::kRequired);
    entry.Field("tenant", &socket.tenant, Need::kRequired);
    entry.Field("mode", &mode);
    const char* end = mode.data() + mode.size();
    if (std::from_chars(mode.data(), end, socket.mode, 8).ptr != end || socket.mode > 0777) {
      entry.Reject("mode", "'mode': expected an octal file mode such as \"0660\"");
    }
    config->sockets.push_back(socket);
  }
}

void ReadLanes(YamlReader& yaml, Config* config) {
  YamlReader lanes = yaml.Child("lanes");
  uint64_t slot_bytes = config->lanes.slot_bytes;
  lanes.Field("channels", &config->channels);
  lanes.Field("slots", &config->lanes.slots);
  lanes.Bytes("slot_bytes", &slot_bytes);
  lanes.Field("skew", &config->skew);
  std::string encryption = "off";
  lanes.Field("encryption", &encryption);
  config->encrypts_lanes = encryption == "on";
  if (encryption != "on" && encryption != "off") {
    lanes.Reject("encryption",
                 absl::StrCat("'encryption' is '", encryption, "': expected on or off"));
  }
  if (config->channels < 1 || config->channels > kMaxChannels) {
    lanes.Reject("channels", absl::StrCat("'channels': expected 1 to ", kMaxChannels));
  }
  if (config->lanes.slots < 2 || config->lanes.slots > kMaxLaneSlots) {
    lanes.Reject("slots", absl::StrCat("'slots': expected 2 to ", kMaxLaneSlots));
  }
  if (config->skew >= config->lanes.slots) {
    lanes.Reject("skew", "'skew': expected less than `slots`");
  }
  if (slot_bytes < kMinSlotBytes || slot_bytes > kMaxSlotBytes) {
    lanes.Reject("slot_bytes",
                 absl::StrCat("'slot_bytes': expected ", kMinSlotBytes, " to ", kMaxSlotBytes));
  } else {
    config->lanes.slot_bytes = static_cast<uint32_t>(slot_bytes);
  }
}

OpKind KindNamed(const std::string& name) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    if (name == Name(static_cast<OpKind>(kind))) return static_cast<OpKind>(kind);
  }
  return OpKind::kNone;
}

void ReadRule(YamlReader& yaml, std::vector<AlgorithmRule>* rules) {
  AlgorithmRule rule;
  std::vector<std::string> calls;
  std::string algorithm;
  yaml.RejectFormerKey("kind", "calls");
  yaml.Field("calls", &calls, Need::kRequired);
  yaml.Field("algorithm", &algorithm, Need::kRequired);
  yaml.Bytes("min_bytes", &rule.min_bytes);
  yaml.Bytes("max_bytes", &rule.max_bytes);
  const std::optional<Algorithm> known = ParseAlgorithm(algorithm);
  if (!known.has_value())
    return yaml.Reject("algorithm", absl::StrCat("invalid algorithm '", algorithm, "': expected ",
                                                 kAlgorithmNames));
  rule.algorithm = *known;
  for (size_t i = 0; i < calls.size(); ++i) {
    rule.kind = KindNamed(calls[i]);
    if (!Supports(rule.algorithm, rule.kind)) {
      yaml.RejectItem(
          "calls", i,
          absl::StrCat("algorithm '", algorithm, "' does not support '", calls[i], "'"));
      continue;
    }
    rules->push_back(rule);
  }
}

// "lane_rate: 16Gbit/s".
void ReadRate(YamlReader& costs, const char* of, double* bytes_per_us) {
  constexpr double kBpsPerBytePerUs = 8e6;
  const std::string key = absl::StrCat(of, "_rate");
  costs.RejectFormerKey(absl::StrCat(of, "_bytes_per_us"), key);
  auto bps = static_cast<uint64_t>(*bytes_per_us * kBpsPerBytePerUs);
  costs.BitRate(key, &bps);
  *bytes_per_us = static_cast<double>(bps) / kBpsPerBytePerUs;
}

void ReadAlgorithms(YamlReader& yaml, ChoiceParameters* choice) {
  YamlReader algorithms = yaml.Child("algorithms");
  YamlReader costs = algorithms.Child("costs");
  costs.Field("operation_us", &choice->costs.operation_us);
  costs.Field("hop_us", &choice->costs.hop_us);
  costs.Field("slice_us", &choice->costs.slice_us);
  ReadRate(costs, "lane", &choice->costs.lane_bytes_per_us);
  ReadRate(costs, "host", &choice->costs.host_bytes_per_us);
  ReadRate(costs, "local", &choice->costs.local_bytes_per_us);
  for (YamlReader& entry : algorithms.Children("rules")) ReadRule(entry, &choice->rules);
  if (absl::Status s = ValidateChoice(*choice); !s.ok()) {
    yaml.Reject("algorithms", std::string(s.message()));
  }
}

void ReadLimits(YamlReader& yaml, Config* config) {
  YamlReader limits = yaml.Child("limits");
  limits.Field("buffers_per_tenant", &config->buffers.buffers_per_tenant);
  limits.Bytes("mapped_bytes_per_tenant", &config->buffers.mapped_bytes_per_tenant);
  if (config->buffers.buffers_per_tenant < 1 ||
      config->buffers.buffers_per_tenant > kMaxBuffersPerTenant) {
    limits.Reject("buffers_per_tenant",
                  absl::StrCat("'buffers_per_tenant': expected 1 to ", kMaxBuffersPerTenant));
  }
  for (size_t r = 0; r < kResources; ++r) {
    const ResourceFacts& facts = kResourceFacts[r];
    if (facts.key == nullptr) continue;
    facts.bytes ? limits.Bytes(facts.key, &config->limits.of[r])
                : limits.Field(facts.key, &config->limits.of[r]);
    if (!facts.bytes && config->limits.of[r] < 2)
      limits.Reject(facts.key, absl::StrCat("'", facts.key, "': expected 2 or more"));
  }
}

void ReadMarkings(YamlReader& yaml, DscpMap* markings) {
  constexpr const char* kPriorities[] = {"1", "2", "3", "4", "5", "6", "7"};
  static_assert(std::size(kPriorities) == kMaxPriority);
  YamlReader dscp = yaml.Child("dscp");
  for (size_t i = 0; i < std::size(kPriorities); ++i) {
    uint32_t mark = 0;
    dscp.Field(kPriorities[i], &mark);
    if (mark > kMaxDscp) {
      dscp.Reject(kPriorities[i], absl::StrCat("'dscp.", kPriorities[i], "' is ", mark,
                                               ": expected 0 to ", static_cast<int>(kMaxDscp)));
    } else {
      (*markings)[i + 1] = static_cast<uint8_t>(mark);
    }
  }
}

void ReadUnknownTenants(YamlReader& yaml, Config* config) {
  std::string unknown = "allow";
  yaml.Field("unknown_tenants", &unknown);
  config->denies_unknown_tenants = unknown == "deny";
  if (unknown != "allow" && unknown != "deny") {
    yaml.Reject("unknown_tenants",
                absl::StrCat("'unknown_tenants' is '", unknown, "': expected allow or deny"));
  }
}

void ReadDevice(YamlReader& yaml, Config* config) {
  std::string device = "host";
  yaml.Field("device", &device);
  if (device == "gpu") {
    config->device = DeviceChoice::kGpu;
  } else if (device != "host") {
    yaml.Reject("device", absl::StrCat("'device' is '", device, "': expected host or gpu"));
  }
}

void ReadTransport(YamlReader& yaml, Config* config) {
  std::string transport = "auto";
  yaml.Field("transport", &transport);
  if (transport == "rdma") {
    config->transport = TransportChoice::kRdma;
  } else if (transport == "tcp") {
    config->transport = TransportChoice::kTcp;
  } else if (transport != "auto") {
    yaml.Reject("transport",
                absl::StrCat("'transport' is '", transport, "': expected auto, rdma or tcp"));
  }
  RdmaConfig& rdma = config->rdma;
  YamlReader keys = yaml.Child("rdma");
  keys.Field("devices", &rdma.devices);
  keys.Field("subnet", &rdma.subnet);
  keys.Field("mtu", &rdma.mtu);
  keys.Field("service_level", &rdma.service_level);
  keys.Field("timeout", &rdma.timeout);
  keys.Field("retries", &rdma.retries);
  if (absl::Status subnet = CheckSubnet(rdma.subnet); !subnet.ok()) {
    keys.Reject("subnet", absl::StrCat("'subnet': ", std::string(subnet.message())));
  }
  const struct {
    const char* key;
    uint32_t value;
    uint32_t most;
  } limits[] = {{"service_level", rdma.service_level, kMaxServiceLevel},
                {"timeout", rdma.timeout, kMaxIbTimeout},
                {"retries", rdma.retries, kMaxIbRetries}};
  for (const auto& [key, value, most] : limits) {
    if (value > most) keys.Reject(key, absl::StrCat("'", key, "': expected 0 to ", most));
  }
  if (absl::Status mtu = CheckMtu(rdma); !mtu.ok()) {
    keys.Reject("mtu", absl::StrCat("'mtu': ", std::string(mtu.message())));
  }
  if (absl::Status timeouts = CheckTimeouts(rdma); !timeouts.ok()) {
    keys.Reject("timeout", absl::StrCat("'timeout': ", std::string(timeouts.message())));
  }
}

void CheckEncryption(YamlReader& yaml, const Config& config) {
  if (!config.encrypts_lanes) return;
  if (config.tls.empty()) {
    yaml.Reject(
        "lanes",
        "'lanes.encryption' is on, but this host has no certificate to encrypt with: set `tls`");
  }
  if (config.transport == TransportChoice::kRdma) {
    yaml.Reject(
        "lanes",
        "'lanes.encryption' is on, but lanes over RDMA are not encrypted: set `transport: tcp`, "
        "or protect the network below MCCS and set the encryption off");
  }
}

// The reader collects errors.
Config Read(YamlReader yaml, EndpointResolver resolve) {
  Config config;
  std::string log_level = "info";
  yaml.Field("host", &config.host);
  yaml.Field("socket", &config.socket);
  yaml.Field("socket_dir", &config.socket_dir);
  yaml.Field("listen", &config.listen);
  yaml.Field("advertise", &config.advertise);
  yaml.Field("state_dir", &config.state_dir);
  yaml.Field("tenants_file", &config.tenants_file);
  yaml.Field("controller", &config.controller);
  ReadTlsFiles(yaml.Child("tls"), &config.tls);
  yaml.Field("topology", &config.topology);
  yaml.Field("metrics_listen", &config.metrics_listen);
  yaml.Field("gpus", &config.gpus);
  yaml.Field("workers", &config.workers);
  yaml.Field("log_level", &log_level);
  YamlReader position = yaml.Child("position");
  position.Field("pod", &config.pod);
  position.Field("rack", &config.rack);
  ReadSockets(yaml, &config);
  ReadUnknownTenants(yaml, &config);
  ReadLanes(yaml, &config);
  ReadAlgorithms(yaml, &config.algorithms);
  ReadLimits(yaml, &config);
  ReadMarkings(yaml, &config.dscp);
  ReadDevice(yaml, &config);
  ReadTransport(yaml, &config);
  CheckEncryption(yaml, config);
  auto level = ParseLogLevel(log_level);
  if (level.ok()) {
    config.log_level = *level;
  } else {
    yaml.Reject("log_level", std::string(level.status().message()));
  }
  for (const auto& [key, value] :
       {std::pair{"listen", &config.listen}, std::pair{"advertise", &config.advertise},
        std::pair{"metrics_listen", &config.metrics_listen}}) {
    if (value->empty()) continue;
    if (auto endpoint = resolve(*value); endpoint.ok()) {
      *value = ToString(*endpoint);
    } else {
      yaml.Reject(key, std::string(endpoint.status().message()));
    }
  }
  if (!config.controller.empty()) {
    if (auto endpoint = ParseEndpoint(config.controller); !endpoint.ok()) {
      yaml.Reject("controller", std::string(endpoint.status().message()));
    }
  }
  return config;
}

absl::StatusOr<Config> ReadAll(YamlReader yaml, EndpointResolver resolve) {
  Config config = Read(yaml, resolve);
  MCCS_RETURN_IF_ERROR(yaml.Finish());
  return config;
}

}  // namespace

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
  return ReadAll(yaml, ResolveEndpoint);
}

absl::StatusOr<Config> ParseConfig(const std::string& text, const std::string& name,
                                   EndpointResolver resolve) {
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Parse(text, name));
  return ReadAll(yaml, resolve);
}

std::vector<YamlKey> ConfigKeys() {
  std::vector<YamlKey> keys;
  Read(YamlReader::Record(&keys), ResolveEndpoint);
  return keys;
}

absl::StatusOr<Endpoint> ResolveEndpoint(const std::string& text) {
  MCCS_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(text));
  auto address = ResolveHost(endpoint.host);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "': ", std::string(address.status().message())));
  }
  endpoint.host = *std::move(address);
  return endpoint;
}

}  // namespace mccs
