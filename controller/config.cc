#include "controller/config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/yaml_config.h"
#include "trust/tls_fields.h"

namespace mccs {

namespace {

std::vector<OperatorRole> ReadOperators(YamlReader* yaml) {
  std::vector<OperatorRole> operators;
  for (YamlReader& entry : yaml->Children("operators")) {
    OperatorRole read;
    std::string role;
    std::string token;
    entry.Field("name", &read.name);
    entry.Field("token", &token);
    entry.Field("role", &role, Need::kRequired);
    entry.Field("tenants", &read.tenants);
    if (entry.Has("name") == entry.Has("token"))
      entry.Reject("name",
                   "an operator has a `name` (in certificates) or a `token` (the name in it)");
    if (const absl::Status name = CheckIdentityName(read.name); entry.Has("name") && !name.ok())
      entry.Reject("name", std::string(name.message()));
    read.by_token = entry.Has("token");
    if (read.by_token) read.name = token;
    const std::optional<Role> parsed = ParseRole(role);
    if (entry.Has("role") && !parsed.has_value())
      entry.Reject("role", absl::StrCat("unknown role '", role,
                                        "': expected viewer, tenant-admin or admin"));
    read.role = parsed.value_or(Role::kViewer);
    if (entry.Has("tenants") && read.role != Role::kTenantAdmin)
      entry.Reject("tenants", "only a tenant-admin has tenants");
    if (read.role == Role::kTenantAdmin && read.tenants.empty())
      entry.Reject("role", "a tenant-admin needs `tenants`, a list of names of Tenants");
    const bool again = std::ranges::any_of(operators, [&](const OperatorRole& other) {
      return other.name == read.name && other.by_token == read.by_token;
    });
    if (again) entry.Reject("name", absl::StrCat("operator ", read.name, " has a role already"));
    operators.push_back(std::move(read));
  }
  return operators;
}

void ReadTokens(YamlReader tokens, TokenRules* rules) {
  tokens.Field("issuer", &rules->issuer);
  tokens.Field("audience", &rules->audience);
  tokens.Field("keys", &rules->keys);
  tokens.Field("claim", &rules->claim);
  const bool any = tokens.Has("issuer") || tokens.Has("audience") || tokens.Has("keys");
  if (any && (rules->issuer.empty() || rules->audience.empty() || rules->keys.empty()))
    tokens.Reject("issuer", "tokens need `issuer`, `audience` and `keys`");
  if (rules->claim.empty()) tokens.Reject("claim", "`claim` is empty: expected sub or email");
}

void CheckTokens(YamlReader& yaml, const ControllerConfig& config) {
  const bool named = std::ranges::any_of(config.operators, &OperatorRole::by_token);
  if (named && config.tokens.empty())
    yaml.Reject("operators", "an operator has a `token`: set `tokens`, whose tokens are accepted");
  if (!config.tokens.empty() && config.tls.empty())
    yaml.Reject("tokens", "tokens must not cross the network in plain: set `tls`");
}

// The reader collects errors.
void Read(YamlReader yaml, ControllerConfig* config) {
  std::string level = "info";
  std::string timeout = absl::StrCat(config->heartbeat_timeout_ns / kNsPerSec, "s");
  yaml.Field("listen", &config->listen);
  yaml.Field("state_dir", &config->state_dir);
  yaml.Field("store", &config->store);
  yaml.Field("metrics_listen", &config->metrics_listen);
  yaml.Field("log_level", &level);
  const auto take_timeout = [&](const std::string& text) {
    timeout = text;
    return true;
  };
  yaml.Parsed("heartbeat_timeout", "duration", "a duration, such as 5s or 200ms", take_timeout,
              Need::kOptional, timeout);
  yaml.Field("calibrate_costs", &config->calibrate_costs);
  YamlReader tls = yaml.Child("tls");
  ReadTlsFiles(std::move(tls), &config->tls);
  std::vector<OperatorRole> operators = ReadOperators(&yaml);
  if (yaml.Has("operators")) config->operators = std::move(operators);
  ReadTokens(yaml.Child("tokens"), &config->tokens);
  CheckTokens(yaml, *config);
  yaml.Field("insecure", &config->insecure);
  const auto check = [&](const char* key, const absl::Status& status) {
    if (!status.ok()) yaml.Reject(key, std::string(status.message()));
  };
  if (yaml.Has("listen")) check("listen", CheckListenAddress(config->listen));
  if (!config->metrics_listen.empty()) {
    check("metrics_listen", CheckListenAddress(config->metrics_listen));
  }
  if (yaml.Has("log_level")) {
    const absl::StatusOr<LogLevel> parsed = ParseLogLevel(level);
    check("log_level", parsed.status());
    config->log_level = parsed.value_or(config->log_level);
  }
  if (yaml.Has("heartbeat_timeout")) {
    const absl::StatusOr<int64_t> parsed = ParseHeartbeatTimeout(timeout);
    check("heartbeat_timeout", parsed.status());
    config->heartbeat_timeout_ns = parsed.value_or(config->heartbeat_timeout_ns);
  }
}

}  // namespace

absl::Status ReadControllerConfig(const std::string& path, ControllerConfig* config) {
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
  Read(yaml, config);
  return yaml.Finish();
}

absl::Status ParseControllerConfig(const std::string& text, const std::string& name,
                                   ControllerConfig* config) {
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Parse(text, name));
  Read(yaml, config);
  return yaml.Finish();
}

namespace {

bool ListensOnLoopback(const std::string& address) {
  const absl::StatusOr<Endpoint> listen = ParseEndpoint(address);
  return listen.ok() && IsLoopbackAddress(listen->host);
}

}  // namespace

absl::Status CheckExposure(const ControllerConfig& config) {
  if (!config.tls.empty() || config.insecure || ListensOnLoopback(config.listen))
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "other machines can reach ", config.listen,
      ", and without `tls` each of them could change "
      "policies: make certificates with `mccs-controller init-ca DIR` and set `tls`, listen on "
      "127.0.0.1 only, or set `insecure: true` if the network is trusted"));
}

std::vector<YamlKey> ControllerConfigKeys() {
  std::vector<YamlKey> keys;
  ControllerConfig defaults;
  Read(YamlReader::Record(&keys), &defaults);
  return keys;
}

absl::Status CheckListenAddress(const std::string& address) {
  const absl::StatusOr<Endpoint> parsed = ParseEndpoint(address);
  // IPv6 in brackets only.
  if (parsed.ok() &&
      parsed->host.find_first_of(address.front() == '[' ? "[]" : "[]:") == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid address '", address, "': expected ADDRESS:PORT, such as 0.0.0.0:7500 or [::]:7500"));
}

absl::StatusOr<int64_t> ParseHeartbeatTimeout(const std::string& word) {
  constexpr absl::Duration kLongest = absl::Hours(365 * 24);
  absl::Duration timeout;
  if (!absl::ParseDuration(word, &timeout) || timeout > kLongest ||
      timeout < absl::Nanoseconds(kShortestHeartbeatTimeoutNs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid heartbeat timeout '", word, "': expected a duration of at least ",
                     kShortestHeartbeatTimeoutNs / kNsPerMs, "ms, such as 5s"));
  }
  return absl::ToInt64Nanoseconds(timeout);
}

}  // namespace mccs
