// mccs-controller: tracks the cluster's hosts and communicators, and proposes each communicator's
// strategy.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/config_file.h"
#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/metrics_server.h"
#include "base/random.h"
#include "base/service_notification.h"
#include "base/state_directory.h"
#include "base/status_macros.h"
#include "base/stderr_log.h"
#include "base/version.h"
#include "base/yaml_config.h"
#include "controller/api/access.h"
#include "controller/api/metrics.h"
#include "controller/api/refused_clients.h"
#include "controller/api/server.h"
#include "controller/certificate_commands.h"
#include "controller/config.h"
#include "controller/coordinator/strategy_persister.h"
#include "controller/objects/read_objects.h"
#include "controller/rates/rate_limits.h"
#include "controller/reload.h"
#include "controller/state/catalog.h"
#include "controller/state/topology_mismatch.h"
#include "controller/store/counting_store.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "trust/certificate_directory.h"
#include "trust/certificate_watch.h"
#include "trust/grpc/failed_handshakes.h"
#include "trust/stored_key.h"
#include "trust/tls_files.h"

namespace mccs {
namespace {

constexpr int kExitFailed = 1;

struct CommandLine {
  std::string config;
  std::string listen;
  std::string state_dir;
  std::string store;
  std::string metrics_listen;
  std::string log_level;
  std::string heartbeat_timeout;
  std::string tls;
  bool insecure = false;
  bool print_keys = false;
};

void Declare(CLI::App* app, CommandLine* line) {
  app->set_version_flag("--version", absl::StrCat("mccs-controller ", kVersion));
  app->add_option(
         "--config", line->config,
         "YAML configuration; deploy/examples/mccs-controller.yaml explains all keys. Options "
         "take precedence")
      ->type_name("FILE");
  app->add_option("--listen", line->listen,
                  "Address for daemons and operators (default 127.0.0.1:7500, which other machines "
                  "cannot reach); port 0: any free port")
      ->type_name("ADDRESS:PORT");
  app->add_option(
         "--state-dir", line->state_dir,
         "Directory for the files 'pid', 'endpoint' and, with --metrics-listen, 'metrics', "
         "which exist while this program is ready")
      ->type_name("DIR");
  app->add_option("--store", line->store,
                  "File for objects, strategies and the audit log; one per controller, on a local "
                  "disk (default: none; objects, strategies and audit log are lost at exit)")
      ->type_name("FILE");
  app->add_option("--metrics-listen", line->metrics_listen,
                  "HTTP address of /metrics for Prometheus (default: none)")
      ->type_name("ADDRESS:PORT");
  app->add_option("--log-level", line->log_level, "debug, info, warning or error (default info)")
      ->type_name("LEVEL");
  app->add_option("--heartbeat-timeout", line->heartbeat_timeout,
                  "Time without a message after which a host counts as lost (default 5s)")
      ->type_name("TIME");
  app->add_option("--tls", line->tls,
                  "Directory with ca.crt, tls.crt and tls.key: daemons and operators must have "
                  "certificates (default: none)")
      ->type_name("DIR");
  app->add_flag("--insecure", line->insecure,
                "Serve other machines without certificates: each of them may change everything");
  app->add_flag("--print-keys", line->print_keys,
                "Print the keys of the configuration and the fields of objects, for the reference")
      ->group("");
  app->footer(
      "Examples:\n"
      "  mccs-controller\n"
      "  mccs-controller --listen 127.0.0.1:7500 --state-dir /run/mccs-controller\n"
      "  mccs-controller --store /var/lib/mccs-controller/store.db\n"
      "  mccs-controller --config /etc/mccs/mccs-controller.yaml --log-level debug\n"
      "\n"
      "SIGHUP reloads the configuration: the log says what has changed and what needs a restart.\n"
      "Exit status: 0 stopped by SIGTERM or SIGINT; 1 could not run; 2 invalid configuration or "
      "usage.");
}

absl::StatusOr<ControllerConfig> Configure(const CommandLine& line) {
  ControllerConfig config;
  if (!line.config.empty()) MCCS_RETURN_IF_ERROR(ReadControllerConfig(line.config, &config));
  if (!line.listen.empty()) {
    config.listen = line.listen;
    MCCS_RETURN_IF_ERROR(CheckListenAddress(config.listen));
  }
  if (!line.state_dir.empty()) config.state_dir = line.state_dir;
  if (!line.store.empty()) config.store = line.store;
  if (!line.metrics_listen.empty()) {
    config.metrics_listen = line.metrics_listen;
    MCCS_RETURN_IF_ERROR(CheckListenAddress(config.metrics_listen));
  }
  if (!line.log_level.empty()) {
    MCCS_ASSIGN_OR_RETURN(config.log_level, ParseLogLevel(line.log_level));
  }
  if (!line.heartbeat_timeout.empty()) {
    MCCS_ASSIGN_OR_RETURN(config.heartbeat_timeout_ns,
                          ParseHeartbeatTimeout(line.heartbeat_timeout));
  }
  if (!line.tls.empty()) config.tls = TlsFilesIn(line.tls);
  if (line.insecure) config.insecure = true;
  MCCS_RETURN_IF_ERROR(CheckExposure(config));
  return config;
}

// Whom the controller serves. Errors as of CheckTlsFiles, CheckKind and TokenVerifier::Make.
// LIFETIME: the clock and what `on_refused` uses outlive it.
absl::StatusOr<std::unique_ptr<Access>> MakeAccess(const ControllerConfig& config,
                                                   const WallClock& clock,
                                                   OnRefusedClient on_refused) {
  if (config.tls.empty()) return std::make_unique<Access>(Access::Clients::kAnyone);
  MCCS_ASSIGN_OR_RETURN(const CertificateFacts facts,
                        CheckTlsFiles(config.tls, clock.Now() / kNsPerSec));
  MCCS_RETURN_IF_ERROR(CheckKind(facts, Identity::Kind::kController, "mccs-controller"));
  std::unique_ptr<TokenVerifier> tokens;
  if (!config.tokens.empty()) {
    MCCS_ASSIGN_OR_RETURN(tokens, TokenVerifier::Make(config.tokens));
  }
  auto access = std::make_unique<Access>(Access::Clients::kProven, facts.identity.domain,
                                         std::move(tokens), &clock, std::move(on_refused));
  access->SetOperators(config.operators);
  return access;
}

// Endpoint for programs on this machine: a wildcard address becomes loopback.
std::string LocalEndpoint(const std::string& listen, int port) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "[::]") host = "[::1]";
  return absl::StrCat(host, ":", port);
}

// Waits until a signal in `signals` other than SIGHUP arrives; calls `reload` for SIGHUP, and
// `tick` periodically.
int TickUntil(const sigset_t& signals, const std::function<void()>& reload,
              const std::function<void()>& tick, int64_t period_ns) {
  const timespec period{period_ns / kNsPerSec, period_ns % kNsPerSec};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &period);
    if (signal > 0 && signal != SIGHUP) return signal;
    if (signal == SIGHUP) reload();
    tick();
  }
}

// The interval of signs of life for the service manager; kNever: none.
int64_t AliveInterval(Log* log) {
  const absl::StatusOr<int64_t> every_ns =
      WatchdogInterval(std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"), getpid());
  if (!every_ns.ok()) log->Warning("no watchdog: ", std::string(every_ns.status().message()));
  return every_ns.value_or(kNever);
}

absl::StatusOr<std::unique_ptr<CountingStore>> OpenStore(const std::string& path,
                                                         const Clock* clock, Log* log) {
  if (path.empty()) {
    log->Info(
        "objects, strategies and the audit log are only in memory and are lost at exit; use "
        "--store FILE");
    return std::make_unique<CountingStore>(std::make_unique<MemoryStore>(), clock);
  }
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Store> file, SqliteStore::Open(path));
  return std::make_unique<CountingStore>(std::move(file), clock);
}

// For all daemons, by which they recognize each other's unique ids. Beside the store, or in
// state_dir; without both, another one at each start.
absl::StatusOr<std::string> IdKeyFor(const ControllerConfig& config) {
  if (config.tls.empty()) return std::string();
  SystemRandom random;
  if (!config.store.empty()) return ReadOrMakeKey(config.store + ".idkey", random);
  if (config.state_dir.empty()) return MakeKey(random);
  std::error_code ignored;  // Writing the file reports it.
  std::filesystem::create_directories(config.state_dir, ignored);
  return ReadOrMakeKey(config.state_dir + "/idkey", random);
}

// Null: not configured. LIFETIME: the last three outlive it.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const ControllerConfig& config,
                                                            SharedCoordinator* coordinator,
                                                            const CountingStore* store,
                                                            const RefusedClients* refused) {
  if (config.metrics_listen.empty()) return nullptr;
  return MetricsServer::Start(config.metrics_listen, [coordinator, store, refused] {
    const StoreCounts counts = store->counts();
    const RefusedCounts refusals = refused->counts();
    return coordinator->With(
        [&](Coordinator& c) { return ControllerMetrics(c, counts, refusals); });
  });
}

// Writes the state files. Null: not configured.
absl::StatusOr<std::unique_ptr<StateDirectory>> PublishState(const ControllerConfig& config,
                                                             const std::string& endpoint,
                                                             const MetricsServer* metrics) {
  if (config.state_dir.empty()) return nullptr;
  MCCS_ASSIGN_OR_RETURN(auto state, StateDirectory::Claim(config.state_dir, "mccs-controller"));
  if (metrics != nullptr) MCCS_RETURN_IF_ERROR(state->PublishMetrics(metrics->endpoint()));
  MCCS_RETURN_IF_ERROR(state->Publish(endpoint));
  return state;
}

// `line`: read into `config`.
int Run(const CommandLine& line, const ControllerConfig& config) {
  // Blocked before any thread starts, so that only TickUntil receives them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const auto log = std::make_unique<StderrLog>("mccs-controller", config.log_level);
  std::optional<ConfigFile> file;
  if (!line.config.empty()) {
    absl::StatusOr<ConfigFile> read = ConfigFile::Read(line.config);
    if (!read.ok()) {
      log->Error(std::string(read.status().message()));
      return kExitFailed;
    }
    file = *std::move(read);
  }
  const SystemClock clock;
  const SystemWallClock wall_clock;
  const absl::StatusOr<std::unique_ptr<CountingStore>> store =
      OpenStore(config.store, &clock, log.get());
  const absl::StatusOr<std::unique_ptr<Catalog>> catalog =
      store.ok() ? Catalog::Open(store->get(), &wall_clock, log.get()) : store.status();
  if (!catalog.ok()) {
    log->Error(std::string(catalog.status().message()));
    return kExitFailed;
  }
  const absl::StatusOr<std::string> id_key = IdKeyFor(config);
  if (!id_key.ok()) {
    log->Error(std::string(id_key.status().message()));
    return kExitFailed;
  }
  SharedCoordinator coordinator({.heartbeat_timeout_ns = config.heartbeat_timeout_ns,
                                 .version = kVersion,
                                 .last_rate_revision = static_cast<uint64_t>(wall_clock.Now()),
                                 .wall_clock = &wall_clock,
                                 .first_request_id = SystemRandom().NextU64() / 2 + 1,
                                 .calibrate_costs = config.calibrate_costs,
                                 .id_key = *id_key},
                                &clock, log.get());
  (*catalog)->SetAdmission([&](const ObjectSet& before, const ObjectSet& after) {
    const ClusterView view = coordinator.With([](Coordinator& c) { return c.View(); });
    MCCS_RETURN_IF_ERROR(CheckAgainstHosts(before, after, view));
    MCCS_RETURN_IF_ERROR(CheckGuaranteesAgainstNics(before, after));
    return CheckGuarantees(before, after, view);
  });
  (*catalog)->Watch([&](Catalog::Objects objects) {
    coordinator.With([&](Coordinator& c) { c.SetObjects(std::move(objects)); });
  });
  StrategyPersister persister(store->get(), &coordinator, &clock, log.get());
  if (const absl::Status restored = persister.Restore(); !restored.ok()) {
    log->Error(std::string(restored.message()));
    return kExitFailed;
  }
  RefusedClients refused(*log, clock);
  const auto on_refused = [&](const RefusedPeer& client) { refused.Add(client); };
  const absl::StatusOr<std::unique_ptr<Access>> access = MakeAccess(config, wall_clock, on_refused);
  if (!access.ok()) {
    log->Error(std::string(access.status().message()));
    return kExitFailed;
  }
  if (config.tls.empty()) {
    log->Warning("clients need no certificates: everybody who reaches ", config.listen,
                 " may change everything");
  }
  RaiseDescriptorLimit(*log);
  // Replaces gRPC's own log; other errors reach us as statuses. GRPC_VERBOSITY prints the lines.
  const FailedHandshakes failed(on_refused, /*print=*/std::getenv("GRPC_VERBOSITY") != nullptr);
  absl::StatusOr<std::unique_ptr<ControllerServer>> server =
      ControllerServer::Start(config.listen,
                              {.files = config.tls,
                               .on_refused = on_refused,
                               .clock = &wall_clock,
                               .watch = {.log = log.get()}},
                              access->get(), &coordinator, catalog->get(), log.get());
  if (!server.ok()) {
    log->Error(std::string(server.status().message()));
    return kExitFailed;
  }
  const std::string endpoint = LocalEndpoint(config.listen, (*server)->port());
  const auto metrics = ServeMetrics(config, &coordinator, store->get(), &refused);
  const auto state = metrics.ok()
                         ? PublishState(config, endpoint, metrics->get())
                         : absl::StatusOr<std::unique_ptr<StateDirectory>>(metrics.status());
  if (!state.ok()) {
    log->Error(std::string(state.status().message()));
    return kExitFailed;
  }
  if (*metrics != nullptr) log->Info("metrics at http://", (*metrics)->endpoint(), "/metrics");
  const char* const manager = std::getenv("NOTIFY_SOCKET");
  if (const absl::Status sent = NotifyServiceManager(manager, "READY=1"); !sent.ok())
    log->Warning("cannot notify the service manager: ", sent.message());
  log->Info("mccs-controller ", kVersion, " is ready at ", endpoint);

  const auto persist = [&] {
    persister.Persist();
    (*catalog)->AuditEvents(coordinator.With([](Coordinator& c) { return c.TakeEvents(); }));
  };
  const int64_t alive_every_ns = AliveInterval(log.get());
  CertificateWatch certificate(config.tls.certificate, &clock);
  const auto tick = [&] {
    if (!config.tls.empty()) {
      const int64_t end_s = certificate.EndS();
      coordinator.With([&](Coordinator& c) { c.SetCertificateEnd(end_s); });
    }
    (*server)->Tick();
    persist();
    // One may be dropped; the next one comes before the watchdog's time has passed.
    if (alive_every_ns != kNever) (void)NotifyServiceManager(manager, kAlive, IfFull::kDrop);
  };
  ControllerReload reload([&] { return Configure(line); }, config, std::move(file), &wall_clock,
                          access->get(), log.get());
  const int signal = TickUntil(
      signals, [&] { reload.Run(); }, tick,
      std::min(alive_every_ns,
               config.heartbeat_timeout_ns / (2 * Coordinator::kHeartbeatsPerTimeout)));
  log->Info("stopping: ", strsignal(signal));
  persist();
  (void)NotifyServiceManager(manager, "STOPPING=1");  // the warning above names the reason
  return 0;
}

int PrintAllKeys() {
  PrintKeys("mccs-controller", ControllerConfigKeys(), &std::cout);
  for (const ObjectKind kind : kObjectKinds)
    PrintKeys(KindName(kind), ObjectFields(kind), &std::cout);
  for (const PolicyTraits& policy : kPolicyTraits) {
    std::cout << "policy " << policy.name << '\t' << policy.effect << '\t'
              << absl::StrJoin(NamesOf(policy.parameters), " ") << '\t'
              << absl::StrJoin(NamesOf(policy.required), " ") << '\n';
  }
  return std::cout ? 0 : kExitFailed;
}

int Main(int argc, char** argv) {
  CommandLine line;
  CLI::App app(
      "The controller of an MCCS cluster: daemons register with it, and it chooses rings and "
      "routes.");
  Declare(&app, &line);
  const CertificateCommands certificates(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitBadConfiguration;
  }
  if (line.print_keys) return PrintAllKeys();
  if (const std::optional<int> status = certificates.Run(SystemWallClock())) return *status;
  const absl::StatusOr<ControllerConfig> config = Configure(line);
  if (!config.ok()) {
    std::fprintf(stderr, "mccs-controller: %s\n", std::string(config.status().message()).c_str());
    return kExitBadConfiguration;
  }
  return Run(line, *config);
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
