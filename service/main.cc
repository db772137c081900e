// mccsd: creates and connects the objects.
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/config_file.h"
#include "base/endpoint.h"
#include "base/hangup_thread.h"
#include "base/log.h"
#include "base/metrics_server.h"
#include "base/random.h"
#include "base/reactor.h"
#include "base/service_notification.h"
#include "base/state_directory.h"
#include "base/status_macros.h"
#include "base/stderr_log.h"
#include "base/units.h"
#include "base/yaml_config.h"
#include "service/agent/agent.h"
#include "service/command_line.h"
#include "service/config.h"
#include "service/daemon.h"
#include "service/device/cpu_device.h"
#include "service/device/emulation_importer.h"
#include "service/device/gpu/gpu_importer.h"
#include "service/device/gpu/kernel_device.h"
#include "service/device/mapping_threads.h"
#include "service/engine_loop.h"
#include "service/frontend/unix_listener.h"
#include "service/frontend/unix_socket_directory.h"
#include "service/gpus/child_gpu_reader.h"
#include "service/gpus/gpu_problems.h"
#include "service/gpus/gpu_watch.h"
#include "service/host_commands.h"
#include "service/host_setup.h"
#include "service/metrics.h"
#include "service/print_cdi.h"
#include "service/probe/raw_prober.h"
#include "service/process_limits.h"
#include "service/rdma_devices.h"
#include "service/reload.h"
#include "service/transport/socket_network.h"
#include "service/transport/stream_lane.h"
#include "service/transport/tls/tls_peers.h"
#include "topology/host_discovery.h"
#include "trust/certificate_watch.h"
#include "trust/grpc/silent_log.h"

namespace mccs {
namespace {

constexpr unsigned long kTimerSlackNs = 1 * kNsPerUs;

// `agent` and `certificate` may be null. LIFETIME: they and the log outlive the server.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const Config& config,
                                                            const Daemon& daemon,
                                                            const Agent* agent,
                                                            CertificateWatch* certificate,
                                                            const Log& log) {
  return MetricsServer::Start(
      config.metrics_listen,
      [host = config.host, counters = daemon.counters(), agent, certificate, &log] {
        DaemonFacts facts{.host = host,
                          .version = MCCS_VERSION,
                          .controller_connected = agent != nullptr && agent->connected(),
                          .log_lines_dropped = log.dropped()};
        if (certificate != nullptr) facts.certificate_end_s = certificate->EndS();
        return DaemonMetrics(*counters, facts);
      });
}

// Reports the GPUs' condition to the log and, unless `agent` is null, to the controller.
// LIFETIME: both outlive the watch.
std::unique_ptr<GpuWatch> WatchGpus(const Config& config, Agent* agent, Log& log) {
  return std::make_unique<GpuWatch>(GpuWatchOptions{
      .reader = std::make_unique<ChildGpuReader>(
          ChildGpuReaderOptions{.argv = {"/proc/self/exe", kSurveyFlag}}),
      .needs = NeedsOf(config),
      .on_change = [agent, &log](const agent::v1::GpuSurvey& survey) {
        log.Info("GPUs: ", DescribeGpus(survey), survey.problems().empty() ? "" : "; problems:");
        for (const std::string& problem : survey.problems()) log.Warning(problem);
        if (agent != nullptr) agent->SetGpuSurvey(survey);
      }});
}

// Whether the certificate is this host's. Errors as of CheckKind; kPermissionDenied: it is another
// host's.
absl::Status CheckHost(const CertificateFacts& facts, const Config& config,
                       const std::string& host) {
  MCCS_RETURN_IF_ERROR(CheckKind(facts, Identity::Kind::kHost, "mccsd"));
  if (facts.identity.name == host) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(config.tls.certificate, " is the certificate of host ", facts.identity.name,
                   ", and this is host ", host,
                   ": install its certificate, or correct `host` in mccsd's "
                   "configuration"));
}

// `certificate` may be null.
AgentVitals VitalsOf(const Daemon& daemon, CertificateWatch* certificate) {
  AgentVitals vitals{
      .engine_turns = [counters = daemon.counters()] { return counters->turns.value(); }};
  if (certificate != nullptr)
    vitals.certificate_end_s = [certificate] { return certificate->EndS(); };
  return vitals;
}

// The engine's signs of life for the service manager at `socket`, if that has a watchdog.
SignOfLife WatchedBy(const char* socket, Log& log) {
  const absl::StatusOr<int64_t> every_ns =
      WatchdogInterval(std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"), getpid());
  if (!every_ns.ok()) {
    log.Warning("no watchdog: ", std::string(every_ns.status().message()));
    return {};
  }
  // A notification may be dropped; the next one comes before the watchdog's time has passed.
  return {.every_ns = *every_ns,
          .give = [socket] { (void)NotifyServiceManager(socket, kAlive, IfFull::kDrop); }};
}

// Waits for the cluster's key, and with it the Tenants, before tenants connect: without it, jobs
// over several hosts are rejected. Not long: the controller may be away. Ends at once if `stop_fd`
// is readable.
void AwaitKey(const Agent& agent, int stop_fd, Log& log) {
  constexpr int kStepMs = 10, kSteps = 300;
  pollfd stop{.fd = stop_fd, .events = POLLIN, .revents = 0};
  for (int i = 0; i < kSteps && !agent.has_id_key(); ++i) {
    if (poll(&stop, 1, kStepMs) > 0) return;
  }
  if (agent.has_id_key()) return;
  log.Warning(
      "the controller has not sent the key of unique ids yet: until it does, unique ids that this "
      "daemon makes are for ranks of this host only, those of other hosts and NCCL_COMM_ID are "
      "rejected, and no Tenants apply but those of an earlier run");
}

// `line`: read into `config`.
absl::Status Serve(const CommandLine& line, const Config& config, StderrLog& log) {
  HangupThread::Block();
  std::optional<ConfigFile> file;
  if (!line.config_path.empty()) {
    MCCS_ASSIGN_OR_RETURN(file, ConfigFile::Read(line.config_path));
  }
  RaiseProcessLimits(log);
  MCCS_ASSIGN_OR_RETURN(auto state, StateDirectory::Claim(config.state_dir, "mccsd"));
  MCCS_ASSIGN_OR_RETURN(auto reactor, Reactor::Create());

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd stop_fd(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  Readiness stop;
  MCCS_RETURN_IF_ERROR(reactor->Watch(stop_fd.get(), &stop));
  UniqueFd wake_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  Readiness wake;
  MCCS_RETURN_IF_ERROR(reactor->Watch(wake_fd.get(), &wake));

  SystemClock clock;
  SystemWallClock wall_clock;
  SystemRandom random;
  SocketNetwork network(*reactor);
  StreamTransport transport;
  const auto wake_engine = [fd = wake_fd.get()] {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t ignored = write(fd, &one, sizeof(one));
  };
  const bool on_gpus = config.device == DeviceChoice::kGpu;
  std::unique_ptr<MemoryImporter> importer = std::make_unique<EmulationImporter>();
  if (on_gpus) importer = std::make_unique<GpuImporter>();
  CpuDevice host_device({.workers = WorkersFor(config), .clock = &clock}, std::move(importer),
                        std::make_unique<MappingThreads>(wake_engine));
  KernelImage image;
  if (on_gpus) {
    MCCS_ASSIGN_OR_RETURN(image, RunCommandsImage());
  }
  KernelDevice kernel_device(host_device, std::move(image));
  Device& device = on_gpus ? static_cast<Device&>(kernel_device) : host_device;

  MCCS_ASSIGN_OR_RETURN(HostInventory inventory,
                        DiscoverHost({.name = config.host, .gpu_count = config.gpus}));
  MCCS_ASSIGN_OR_RETURN(const Endpoint listen, ParseEndpoint(config.listen));
  std::unique_ptr<TlsPeers> tls;
  if (!config.tls.empty()) {
    MCCS_ASSIGN_OR_RETURN(
        tls, TlsPeers::Make(config.tls, wall_clock, log,
                            {.secures_lanes = config.encrypts_lanes, .wake = wake_engine}));
    MCCS_RETURN_IF_ERROR(CheckHost(tls->own(), config, inventory.name));
  } else if (!IsLoopbackAddress(listen.host)) {
    log.Warning(
        "this host has no certificate (`tls` in the configuration): every program that reaches ",
        config.listen, " and has a job's unique id can be its peer");
  }
  const RdmaSurvey survey = SurveyRdma(config.rdma, listen, inventory);
  MCCS_ASSIGN_OR_RETURN(OpenedRdma rdma,
                        OpenTransport(config, survey, *reactor, wake_engine, random, clock, log));
  DaemonOptions options{.position = {.pod = config.pod, .rack = config.rack, .host = config.host},
                        .listen = listen,
                        .advertise = {.host = AddressFor(listen, inventory)},
                        .channels = config.channels,
                        .lanes = config.lanes,
                        .skew = config.skew,
                        .algorithms = AlgorithmsFor(config),
                        .buffers = config.buffers,
                        .limits = LimitsOfMachine(config.limits),
                        .dscp_by_class = config.dscp,
                        .requires_rdma = config.transport == TransportChoice::kRdma,
                        .denies_unknown_tenants = config.denies_unknown_tenants,
                        .expects_id_key = !config.controller.empty() && tls != nullptr};
  if (!config.advertise.empty()) {
    MCCS_ASSIGN_OR_RETURN(options.advertise, ParseEndpoint(config.advertise));
  }
  UnixSocketDirectory declared_sockets(config.socket_dir, *reactor);
  // Null: the host has none. Ends after the agent and the metrics.
  const auto certificate = config.tls.empty()
                               ? nullptr
                               : std::make_unique<CertificateWatch>(config.tls.certificate, &clock);
  NoController no_controller;
  std::unique_ptr<Agent> agent;
  if (!config.controller.empty()) {
    agent = std::make_unique<Agent>(
        AgentOptions{.controller = config.controller,
                     .tls = config.tls,
                     .domain = tls != nullptr ? tls->own().identity.domain : "",
                     .version = MCCS_VERSION,
                     .tenants_file = config.TenantsFile(),
                     .wake = wake_engine,
                     .prober = std::make_unique<RawProber>(),
                     .wall_clock = &wall_clock},
        &log);
  }
  MCCS_ASSIGN_OR_RETURN(
      auto daemon,
      Daemon::Make({.clock = &clock,
                    .random = &random,
                    .log = &log,
                    .network = &network,
                    .transport = &transport,
                    .rdma = rdma.transport.get(),
                    .security = tls.get(),
                    .device = &device,
                    .controller = agent != nullptr ? static_cast<ControllerLink*>(agent.get())
                                                   : &no_controller,
                    .sockets = config.socket_dir.empty() ? nullptr : &declared_sockets},
                   options));
  const auto counted_as = [&daemon = *daemon](const ProcessOrigin& origin) {
    return daemon.CountedAs(origin);
  };
  const auto foreign = std::make_shared<ForeignDescriptors>();  // of all sockets of the daemon
  declared_sockets.SetCommonOptions(daemon->wants_dma_bufs(), counted_as, foreign);
  MCCS_RETURN_IF_ERROR(NameGpus(config, &inventory));
  RetainAddressesFor(listen.host, &inventory);
  if (agent != nullptr) {
    MCCS_RETURN_IF_ERROR(agent->Start({.inventory = inventory,
                                       .position = options.position,
                                       .peer_endpoint = ToString(daemon->endpoint()),
                                       .transport = rdma.description,
                                       .topology = config.topology},
                                      VitalsOf(*daemon, certificate.get())));
  }
  if (options.expects_id_key) AwaitKey(*agent, stop_fd.get(), log);
  // Ends before the agent and the log.
  const std::unique_ptr<GpuWatch> gpus = on_gpus ? WatchGpus(config, agent.get(), log) : nullptr;
  std::vector<TenantSocket> sockets = config.sockets;
  if (!config.socket.empty()) sockets.push_back({.path = config.socket, .tenant = ""});
  for (const TenantSocket& socket : sockets) {
    MCCS_ASSIGN_OR_RETURN(auto listener, UnixListener::Open({.path = socket.path,
                                                             .tenant = socket.tenant,
                                                             .mode = socket.mode,
                                                             .dma_bufs = daemon->wants_dma_bufs(),
                                                             .counted_as = counted_as,
                                                             .foreign = foreign},
                                                            *reactor));
    daemon->AddListener(std::move(listener));
    log.Info("listening for tenants at ", socket.path, socket.tenant.empty() ? "" : " as tenant ",
             socket.tenant);
  }
  std::unique_ptr<MetricsServer> metrics;
  if (!config.metrics_listen.empty()) {
    MCCS_ASSIGN_OR_RETURN(metrics,
                          ServeMetrics(config, *daemon, agent.get(), certificate.get(), log));
    MCCS_RETURN_IF_ERROR(state->PublishMetrics(metrics->endpoint()));
    log.Info("serving metrics at http://", metrics->endpoint(), "/metrics");
  }
  MCCS_RETURN_IF_ERROR(state->Publish(ToString(daemon->endpoint())));
  log.Info("host ", config.host, " is ready: endpoint for peers ", ToString(daemon->endpoint()),
           ", ", device.Description());
  const char* const manager = std::getenv("NOTIFY_SOCKET");
  if (const absl::Status sent = NotifyServiceManager(manager, "READY=1"); !sent.ok())
    log.Warning("cannot notify the service manager: ", sent.message());

  Reload reload(line, config, std::move(file), &wall_clock, &log, daemon.get());
  MCCS_ASSIGN_OR_RETURN(const auto hangups, HangupThread::Start([&] { reload.Run(); }));

  // Short sleeps of this thread end on time; the kernel's default adds 50 µs to each.
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  EngineLoop(
      *daemon, *reactor, clock, +[] { sched_yield(); }, WatchedBy(manager, log))
      .Run(stop);

  (void)NotifyServiceManager(manager, "STOPPING=1");  // the warning above names the reason
  log.Info("stopping: ", daemon->sessions(), " processes, ", daemon->communicators(),
           " communicators");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{
      "mccsd: runs the collectives of this host's tenants.\n\n"
      "Runs until SIGTERM or SIGINT. SIGHUP reloads the configuration: the log says what has "
      "changed "
      "and what needs a restart. Exit status: 0 stopped by SIGTERM or SIGINT; 1 could not run; "
      "2 invalid configuration or usage."};
  CommandLine line;
  Declare(&app, &line);
  app.set_version_flag("--version", "mccsd " MCCS_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : kExitBadConfiguration;
  }
  TakeGivenFlags(app, &line);
  if (line.survey_gpus) return SurveyGpus();
  if (line.print_keys) {
    PrintKeys("mccsd", ConfigKeys(), &std::cout);
    return std::cout ? 0 : 1;
  }
  const absl::StatusOr<Config> config = Configure(line);
  if (!config.ok()) {
    std::cerr << config.status().message() << "\n";
    return kExitBadConfiguration;
  }
  if (line.print_cdi) return PrintCdi(*config, line.library_dir);
  if (line.print_topology) return PrintTopology(*config);
  if (line.check_gpus) return CheckGpus(*config);
  if (line.check_rdma) return CheckRdma(*config);
  StderrLog log("mccsd", config->log_level);
  SilenceGrpcLog();
  if (absl::Status status = Serve(line, *config, log); !status.ok()) {
    log.Error(std::string(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
