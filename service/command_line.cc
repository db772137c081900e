#include "service/command_line.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

std::string HostName() {
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// A flag that overrides a key of the configuration.
struct Flag {
  const char* name;
  const char* type;
  std::string Config::*field;
  const char* text;  // the default, if any, is appended
};
constexpr Flag kFlags[] = {
    {"--host", "NAME", &Config::host, "Name of this host (default: the machine's)"},
    {"--socket", "PATH", &Config::socket, "Unix socket for tenants"},
    {"--listen", "ADDRESS:PORT", &Config::listen, "Address for peer daemons"},
    {"--advertise", "ADDRESS:PORT", &Config::advertise,
     "Address at which peers reach this daemon (default: the address of --listen; for a wildcard, "
     "the machine's first non-loopback address)"},
    {"--state-dir", "DIR", &Config::state_dir,
     "Directory for the files 'pid', 'endpoint' and, with --metrics-listen, 'metrics'"},
    {"--controller", "ADDRESS:PORT", &Config::controller,
     "Address of mccs-controller (default: none)"},
    {"--metrics-listen", "ADDRESS:PORT", &Config::metrics_listen,
     "HTTP address of /metrics for Prometheus (default: none)"},
};

}  // namespace

void Declare(CLI::App* app, CommandLine* line) {
  app->add_option("--config", line->config_path, "YAML configuration; flags take precedence")
      ->option_text("FILE");
  for (const Flag& flag : kFlags) {
    const std::string& usual = line->flags.*flag.field;
    app->add_option(flag.name, line->flags.*flag.field,
                    usual.empty() ? flag.text : absl::StrCat(flag.text, " (default ", usual, ")"))
        ->option_text(flag.type);
  }
  app->add_option("--log-level", line->log_level, "debug, info, warning or error (default info)")
      ->option_text("LEVEL");
  app->add_flag(
      "--print-topology", line->print_topology,
      "Print this host's entry for spec.hosts of a Topology, from hwloc and the kernel, and exit");
  app->add_flag("--print-cdi", line->print_cdi,
                "Print this host's sockets as devices of the Container Device Interface, for "
                "/etc/cdi/mccs.json, and exit");
  app->add_option("--library-dir", line->library_dir,
                  "With --print-cdi: the directory of libnccl.so.2 (default /opt/mccs/lib)")
      ->option_text("DIR");
  app->add_flag("--check-rdma", line->check_rdma,
                "Print this host's RDMA devices, which of them are used, and what is missing for "
                "others, and exit: 0 if RDMA can be used");
  app->add_flag("--check-gpus", line->check_gpus,
                "Print this host's GPUs as NVML reports them, and what prevents or slows programs "
                "on them, and exit: 0 if nothing does");
  app->add_flag(kSurveyFlag, line->survey_gpus, "Write the GPUs for mccsd itself")->group("");
  app->add_flag("--print-keys", line->print_keys,
                "Print the keys of the configuration, for the reference")
      ->group("");
}

void TakeGivenFlags(const CLI::App& app, CommandLine* line) {
  for (const Flag& flag : kFlags) {
    if (app.count(flag.name) > 0) line->given.push_back(flag.field);
  }
}

absl::StatusOr<Config> Configure(const CommandLine& line) {
  Config config;
  if (!line.config_path.empty()) {
    MCCS_ASSIGN_OR_RETURN(config, ReadConfig(line.config_path));
  }
  for (std::string Config::*const field : line.given) config.*field = line.flags.*field;
  if (!line.log_level.empty()) {
    const absl::StatusOr<LogLevel> parsed = ParseLogLevel(line.log_level);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--log-level: ", std::string(parsed.status().message())));
    }
    config.log_level = *parsed;
  }
  for (std::string* endpoint : {&config.listen, &config.advertise, &config.metrics_listen}) {
    if (endpoint->empty()) continue;
    MCCS_ASSIGN_OR_RETURN(const Endpoint resolved, ResolveEndpoint(*endpoint));
    *endpoint = ToString(resolved);
  }
  if (config.host.empty()) config.host = HostName();
  return config;
}

}  // namespace mccs
