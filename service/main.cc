// mccsd: creates and connects the objects.
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/metrics_server.h"
#include "base/random.h"
#include "base/reactor.h"
#include "base/service_notification.h"
#include "base/state_directory.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "base/yaml_config.h"
#include "emulation/include/mccs_emulation_pci.h"
#include "kernels/run_commands_image.h"
#include "service/agent/agent.h"
#include "service/config.h"
#include "service/daemon.h"
#include "service/device/cpu_device.h"
#include "service/device/emulation_importer.h"
#include "service/device/gpu/gpu_importer.h"
#include "service/device/gpu/kernel_device.h"
#include "service/device/kernel_image.h"
#include "service/device/mapping_threads.h"
#include "service/engine_loop.h"
#include "service/frontend/unix_listener.h"
#include "service/frontend/unix_socket_directory.h"
#include "service/gpus/child_gpu_reader.h"
#include "service/gpus/gpu_problems.h"
#include "service/gpus/gpu_watch.h"
#include "service/gpus/nvml_survey.h"
#include "service/machine_parts.h"
#include "service/metrics.h"
#include "service/print_cdi.h"
#include "service/probe/raw_prober.h"
#include "service/rdma_devices.h"
#include "service/transport/socket_network.h"
#include "service/transport/stream_lane.h"
#include "topology/host_discovery.h"

namespace mccs {
namespace {

constexpr rlim_t kWantedDescriptors = 65536;
constexpr rlim_t kFewDescriptors = 4096;
constexpr char kSurveyFlag[] = "--survey-gpus";
constexpr unsigned long kTimerSlackNs = 1 * kNsPerUs;

// RDMA locks memory.
void RaiseLockedMemory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_MEMLOCK, &limit);
}

// Raises the limit of file descriptors (one per connection, buffer and communicator) to the hard
// limit. Logs a line if file descriptors or lockable memory are too few.
void RaiseProcessLimits(Log& log) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kWantedDescriptors));
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < kFewDescriptors) {
      log.Warning("only ", limit.rlim_cur, " file descriptors are allowed; ", kFewDescriptors,
                  " or more are advised (LimitNOFILE= in the unit)");
    }
  }
  RaiseLockedMemory();
}

// Chooses between RDMA and TCP, and logs why. kFailedPrecondition: the configuration requires RDMA.
absl::StatusOr<OpenedRdma> OpenTransport(const Config& config, const RdmaSurvey& survey,
                                         Reactor& reactor, std::function<void()> wake,
                                         Random& random, const Clock& clock, Log& log) {
  OpenedRdma tcp;
  tcp.description = "tcp (`transport: tcp`)";
  if (config.transport == TransportChoice::kTcp) return tcp;
  std::string why = WhyNoRdma(survey);
  if (why.empty()) {
    absl::StatusOr<OpenedRdma> opened =
        OpenRdma(config.rdma, survey, reactor, std::make_unique<MappingThreads>(std::move(wake)),
                 random, clock, log);
    if (opened.ok()) {
      log.Info("lanes to hosts with RDMA use it: ", opened->description,
               "; tenants' host memory is registered by ibv_reg_mr");
      const std::string not_on_gpus = opened->transport->WhyNotOnGpus();
      if (config.device == DeviceChoice::kGpu) {
        log.Info(not_on_gpus.empty() ? "NICs register memory on GPUs by dma-bufs"
                                     : absl::StrCat("NICs do not register memory on GPUs, so that "
                                                    "collectives are staged in host memory: ",
                                                    not_on_gpus));
      }
      return opened;
    }
    why = std::string(opened.status().message());
  }
  if (config.transport == TransportChoice::kRdma) {
    return absl::FailedPreconditionError(
        absl::StrCat("`transport: rdma` in the configuration, but RDMA cannot be used: ", why));
  }
  log.Info("lanes use TCP: ", why);
  tcp.description = absl::StrCat("tcp (", why.substr(0, why.find(';')), ")");
  return tcp;
}

int WorkersFor(const Config& config) {
  if (config.workers >= 0) return config.workers;
  // The engine's thread works too; a second worker helps only with enough cores.
  return std::thread::hardware_concurrency() > 2 ? 2 : 1;
}

// A daemon that listens on all addresses advertises the first one that is not loopback.
std::string AddressFor(const Endpoint& listen, const HostInventory& inventory) {
  if (!IsWildcardAddress(listen.host)) return listen.host;
  return inventory.nics.empty() ? "127.0.0.1" : inventory.nics.front().addresses.front();
}

// The GPUs that programs see: with `device: gpu` those of the machine. If it has none, and with
// `device: host`, they are emulated, and so are their PCI addresses.
absl::Status NameGpus(const Config& config, HostInventory* inventory) {
  if (config.device == DeviceChoice::kGpu) {
    MCCS_ASSIGN_OR_RETURN(const MachineParts parts,
                          DiscoverMachine({.inventory = *inventory, .hwloc_xml = ""}));
    if (!parts.gpus.empty()) {
      inventory->gpus = InventoryGpus(parts);
      return absl::OkStatus();
    }
  }
  for (GpuInfo& gpu : inventory->gpus) {
    char bus_id[32];
    snprintf(bus_id, sizeof(bus_id), MCCS_EMULATION_PCI_FORMAT,
             MCCS_EMULATION_PCI_DOMAIN(gpu.index), MCCS_EMULATION_PCI_BUS(gpu.index));
    gpu.bus_id = bus_id;
  }
  return absl::OkStatus();
}

// `agent` may be null. LIFETIME: it and the log outlive the server.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const Config& config,
                                                            const Daemon& daemon,
                                                            const Agent* agent, const Log& log) {
  return MetricsServer::Start(config.metrics_listen, [host = config.host,
                                                      counters = daemon.counters(), agent, &log] {
    return DaemonMetrics(*counters, {.host = host,
                                     .version = MCCS_VERSION,
                                     .controller_connected = agent != nullptr && agent->connected(),
                                     .log_lines_dropped = log.dropped()});
  });
}

// The image that this program contains.
absl::StatusOr<KernelImage> RunCommandsImage() {
  const std::span bytes(mccs_run_commands_image, mccs_run_commands_image_end);
  return MakeKernelImage(std::as_bytes(bytes), mccs_run_commands_architectures);
}

// Kernels cannot run grids, so that their all-to-alls are direct exchanges where the configuration
// does not demand otherwise.
ChoiceParameters AlgorithmsFor(const Config& config) {
  ChoiceParameters result = config.algorithms;
  if (config.device == DeviceChoice::kGpu && result.rules.size() < kMaxAlgorithmRules)
    result.rules.push_back({.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect});
  return result;
}

GpuNeeds NeedsOf(const Config& config) {
  return {.cuda_version = mccs_run_commands_cuda_version,
          .compute_capability = LeastComputeCapability(mccs_run_commands_architectures),
          .gpus = config.gpus};
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

// The trust domain of this host's certificate; empty: it has none. Errors as of CheckTlsFiles and
// CheckKind; kPermissionDenied: it is another host's.
absl::StatusOr<std::string> TrustDomain(const Config& config, const std::string& host,
                                        const WallClock& clock) {
  if (config.tls.empty()) return std::string();
  MCCS_ASSIGN_OR_RETURN(const CertificateFacts facts,
                        CheckTlsFiles(config.tls, clock.Now() / kNsPerSec));
  MCCS_RETURN_IF_ERROR(CheckKind(facts, Identity::Kind::kHost, "mccsd"));
  if (facts.identity.name == host) return facts.identity.domain;
  return absl::PermissionDeniedError(
      absl::StrCat(config.tls.certificate, " is the certificate of host ", facts.identity.name,
                   ", and this is host ", host,
                   ": install its certificate, or correct `host` in mccsd's "
                   "configuration"));
}

absl::Status Serve(const Config& config, Log& log) {
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
  MCCS_ASSIGN_OR_RETURN(const std::string domain, TrustDomain(config, inventory.name, wall_clock));
  MCCS_ASSIGN_OR_RETURN(const Endpoint listen, ParseEndpoint(config.listen));
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
                        .dscp_by_class = config.dscp,
                        .requires_rdma = config.transport == TransportChoice::kRdma,
                        .denies_unknown_tenants = config.denies_unknown_tenants};
  if (!config.advertise.empty()) {
    MCCS_ASSIGN_OR_RETURN(options.advertise, ParseEndpoint(config.advertise));
  }
  UnixSocketDirectory declared_sockets(config.socket_dir, *reactor);
  const std::string tenants_file = config.state_dir + "/tenants.table";
  NoController no_controller;
  std::unique_ptr<Agent> agent;
  if (!config.controller.empty()) {
    agent = std::make_unique<Agent>(AgentOptions{.controller = config.controller,
                                                 .tls = config.tls,
                                                 .domain = domain,
                                                 .version = MCCS_VERSION,
                                                 .tenants_file = tenants_file,
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
                    .device = &device,
                    .controller = agent != nullptr ? static_cast<ControllerLink*>(agent.get())
                                                   : &no_controller,
                    .sockets = config.socket_dir.empty() ? nullptr : &declared_sockets},
                   options));
  const auto counted_as = [&daemon = *daemon](const ProcessOrigin& origin) {
    return daemon.CountedAs(origin);
  };
  declared_sockets.SetCommonOptions(daemon->wants_dma_bufs(), counted_as);
  MCCS_RETURN_IF_ERROR(NameGpus(config, &inventory));
  RetainAddressesFor(listen.host, &inventory);
  if (agent != nullptr) {
    MCCS_RETURN_IF_ERROR(agent->Start({.inventory = inventory,
                                       .position = options.position,
                                       .peer_endpoint = ToString(daemon->endpoint()),
                                       .transport = rdma.description,
                                       .topology = config.topology}));
  }
  // Ends before the agent and the log.
  const std::unique_ptr<GpuWatch> gpus = on_gpus ? WatchGpus(config, agent.get(), log) : nullptr;
  std::vector<TenantSocket> sockets = config.sockets;
  if (!config.socket.empty()) sockets.push_back({.path = config.socket, .tenant = ""});
  for (const TenantSocket& socket : sockets) {
    MCCS_ASSIGN_OR_RETURN(auto listener, UnixListener::Open({.path = socket.path,
                                                             .tenant = socket.tenant,
                                                             .mode = socket.mode,
                                                             .dma_bufs = daemon->wants_dma_bufs(),
                                                             .counted_as = counted_as},
                                                            *reactor));
    daemon->AddListener(std::move(listener));
    log.Info("listening for tenants at ", socket.path, socket.tenant.empty() ? "" : " as tenant ",
             socket.tenant);
  }
  std::unique_ptr<MetricsServer> metrics;
  if (!config.metrics_listen.empty()) {
    MCCS_ASSIGN_OR_RETURN(metrics, ServeMetrics(config, *daemon, agent.get(), log));
    MCCS_RETURN_IF_ERROR(state->PublishMetrics(metrics->endpoint()));
    log.Info("serving metrics at http://", metrics->endpoint(), "/metrics");
  }
  MCCS_RETURN_IF_ERROR(state->Publish(ToString(daemon->endpoint())));
  log.Info("host ", config.host, " is ready: endpoint for peers ", ToString(daemon->endpoint()),
           ", ", device.Description());
  const char* const manager = std::getenv("NOTIFY_SOCKET");
  if (const absl::Status sent = NotifyServiceManager(manager, "READY=1"); !sent.ok())
    log.Warning("cannot notify the service manager: ", sent.message());

  // Short sleeps of this thread end on time; the kernel's default adds 50 µs to each.
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  EngineLoop(
      *daemon, *reactor, clock, +[] { sched_yield(); })
      .Run(stop);

  (void)NotifyServiceManager(manager, "STOPPING=1");  // the warning above names the reason
  log.Info("stopping: ", daemon->sessions(), " processes, ", daemon->communicators(),
           " communicators");
  return absl::OkStatus();
}

// Writes the host's GPUs, as NVML reports them, to standard output, for ChildGpuReader. NVML may
// hang: the daemon's end ends this process.
int SurveyGpus() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::cout << SurveyByNvml(kNvmlLibrary).SerializeAsString() << std::flush;
  return std::cout ? 0 : 1;
}

int CheckGpus(const Config& config) {
  agent::v1::GpuSurvey survey = SurveyByNvml(kNvmlLibrary);
  AddGpuProblems(NeedsOf(config), &survey);
  std::cout << RenderGpuSurvey(survey) << std::flush;
  return std::cout && survey.problems().empty() ? 0 : 1;
}

int CheckRdma(const Config& config) {
  const absl::StatusOr<HostInventory> inventory =
      DiscoverHost({.name = config.host, .gpu_count = config.gpus});
  if (!inventory.ok()) {
    std::cerr << "mccsd: " << inventory.status().message() << "\n";
    return 1;
  }
  const absl::StatusOr<Endpoint> listen = ParseEndpoint(config.listen);
  if (!listen.ok()) {
    std::cerr << "mccsd: " << listen.status().message() << "\n";
    return 1;
  }
  RaiseLockedMemory();  // as a daemon does
  const RdmaSurvey survey = SurveyRdma(config.rdma, *listen, *inventory);
  std::cout << RenderSurvey(survey) << std::flush;
  return std::cout && WhyNoRdma(survey).empty() ? 0 : 1;
}

int PrintTopology(const Config& config) {
  const absl::StatusOr<HostInventory> inventory =
      DiscoverHost({.name = config.host, .gpu_count = config.gpus});
  const absl::StatusOr<MachineParts> parts =
      inventory.ok() ? DiscoverMachine({.inventory = *inventory, .hwloc_xml = ""})
                     : absl::StatusOr<MachineParts>(inventory.status());
  if (!parts.ok()) {
    std::cerr << "mccsd: " << parts.status().message() << "\n";
    return 1;
  }
  std::cout << HostTopologyYaml(
                   {.host = config.host, .rack = config.rack, .configured_gpus = config.gpus},
                   *parts)
            << std::flush;
  return std::cout ? 0 : 1;
}

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
     "Directory for the files 'pid', 'endpoint', 'tenants.table' and, with --metrics-listen, "
     "'metrics'"},
    {"--controller", "ADDRESS:PORT", &Config::controller,
     "Address of mccs-controller (default: none)"},
    {"--metrics-listen", "ADDRESS:PORT", &Config::metrics_listen,
     "HTTP address of /metrics for Prometheus (default: none)"},
};

int Main(int argc, char** argv) {
  CLI::App app{
      "mccsd: runs the collectives of this host's tenants.\n\n"
      "Runs until SIGTERM or SIGINT. Exit status: 0 stopped by SIGTERM or SIGINT; 1 could not run; "
      "2 invalid configuration or usage."};
  std::string config_path;
  Config flags;
  std::string log_level;
  app.add_option("--config", config_path, "YAML configuration; flags take precedence")
      ->option_text("FILE");
  for (const Flag& flag : kFlags) {
    const std::string& usual = flags.*flag.field;
    app.add_option(flag.name, flags.*flag.field,
                   usual.empty() ? flag.text : absl::StrCat(flag.text, " (default ", usual, ")"))
        ->option_text(flag.type);
  }
  auto* level =
      app.add_option("--log-level", log_level, "debug, info, warning or error (default info)")
          ->option_text("LEVEL");
  bool print_topology = false;
  app.add_flag(
      "--print-topology", print_topology,
      "Print this host's entry for spec.hosts of a Topology, from hwloc and the kernel, and exit");
  bool print_cdi = false;
  std::string library_dir = "/opt/mccs/lib";
  app.add_flag("--print-cdi", print_cdi,
               "Print this host's sockets as devices of the Container Device Interface, for "
               "/etc/cdi/mccs.json, and exit");
  app.add_option("--library-dir", library_dir,
                 "With --print-cdi: the directory of libnccl.so.2 (default /opt/mccs/lib)")
      ->option_text("DIR");
  bool check_rdma = false;
  app.add_flag("--check-rdma", check_rdma,
               "Print this host's RDMA devices, which of them are used, and what is missing for "
               "others, and exit: 0 if RDMA can be used");
  bool check_gpus = false;
  app.add_flag(
      "--check-gpus", check_gpus,
      "Print this host's GPUs as NVML reports them, and what prevents or slows programs on "
      "them, and exit: 0 if nothing does");
  bool survey_gpus = false;
  app.add_flag(kSurveyFlag, survey_gpus, "Write the GPUs for mccsd itself")->group("");
  bool print_keys = false;
  app.add_flag("--print-keys", print_keys, "Print the keys of the configuration, for the reference")
      ->group("");
  app.set_version_flag("--version", "mccsd " MCCS_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : kExitBadConfiguration;
  }
  if (survey_gpus) return SurveyGpus();
  if (print_keys) {
    PrintKeys("mccsd", ConfigKeys(), &std::cout);
    return std::cout ? 0 : 1;
  }
  Config config;
  if (!config_path.empty()) {
    auto read = ReadConfig(config_path);
    if (!read.ok()) {
      std::cerr << read.status().message() << "\n";
      return kExitBadConfiguration;
    }
    config = *read;
  }
  for (const Flag& flag : kFlags) {
    if (app.count(flag.name) > 0) config.*flag.field = flags.*flag.field;
  }
  if (*level) {
    auto parsed = ParseLogLevel(log_level);
    if (!parsed.ok()) {
      std::cerr << "--log-level: " << parsed.status().message() << "\n";
      return kExitBadConfiguration;
    }
    config.log_level = *parsed;
  }
  for (std::string* endpoint : {&config.listen, &config.advertise, &config.metrics_listen}) {
    if (endpoint->empty()) continue;
    auto resolved = ResolveEndpoint(*endpoint);
    if (!resolved.ok()) {
      std::cerr << resolved.status().message() << "\n";
      return kExitBadConfiguration;
    }
    *endpoint = ToString(*resolved);
  }
  if (config.host.empty()) config.host = HostName();
  if (print_cdi) return PrintCdi(config, library_dir);
  if (print_topology) return PrintTopology(config);
  if (check_gpus) return CheckGpus(config);
  if (check_rdma) return CheckRdma(config);
  auto log = MakeStderrLog("mccsd", config.log_level);
  if (absl::Status status = Serve(config, *log); !status.ok()) {
    log->Error(std::string(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
