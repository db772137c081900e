// mccs-lab: a cluster on one machine. Parses the command line and calls lab/commands.h.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "lab/commands.h"
#include "lab/link_commands.h"
#include "lab/vm_agent.h"

namespace mccs::lab {
namespace {

// The exit status of shells and `env` for a program that cannot be started.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// automake's exit status for skipped tests: this machine does not support the command.
constexpr int kExitUnsupported = 77;

constexpr char kParentDirectory[] = "/tmp";

int Finish(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cout.flush();
  std::fprintf(stderr, "mccs-lab: %s\n", std::string(status.message()).c_str());
  return absl::IsUnimplemented(status) ? kExitUnsupported : 1;
}

int Finish(const absl::StatusOr<int>& exit_status) {
  if (exit_status.ok()) return *exit_status;
  Finish(exit_status.status());
  if (absl::IsNotFound(exit_status.status())) return kExitNotFound;
  return absl::IsPermissionDenied(exit_status.status()) ? kExitNotExecutable : 1;
}

Caller ReadCaller() {
  Caller caller{.environment = {}, .directories = LabDirectories(kParentDirectory)};
  for (char** entry = environ; *entry != nullptr; ++entry) caller.environment.emplace_back(*entry);
  return caller;
}

// Omits the number of words after the name of a positional that takes one or two ends of a link.
class UsageFormatter final : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    const int most = option->get_expected_max();
    return most > 1 && most < CLI::detail::expected_max_vector_size
               ? make_option_name(option, /*is_positional=*/true)
               : CLI::Formatter::make_option_usage(option);
  }
};

void AddExamples(CLI::App* command, const std::string& lines) {
  command->footer("Examples:\n" + lines);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs a cluster on one machine: hosts are mccsd processes with emulated GPUs, and programs "
      "run on them unchanged. With --topology and --network namespaces, hosts and switches are "
      "network namespaces and links have rates. With --network rdma-vms, hosts are virtual "
      "machines "
      "with an RDMA device.",
      "mccs-lab");
  app.require_subcommand(1);
  app.formatter(std::make_shared<UsageFormatter>());
  AddExamples(
      &app,
      "  mccs-lab up --hosts 2 --gpus 2\n"
      "  mccs-lab run -- build/bin/collective_perf --op all\n"
      "  mccs-lab down\n\n"
      "  mccs-lab up --topology tests/testbeds/mccs.yaml --network namespaces      # as root\n"
      "  mccs-lab exec h1 -- ping -c 1 h2\n"
      "  mccs-lab link rate leaf0 spine1 20Mbit/s\n"
      "  mccs-lab links\n\n"
      "  mccs-lab up --network rdma-vms --hosts 2\n"
      "  mccs-lab exec h1 -- rdma link");
  std::string name = "default";
  auto add_name = [&](CLI::App* command) {
    command->add_option("--name", name, "name of the lab; several labs can run at once")
        ->type_name("NAME")
        ->capture_default_str();
  };
  auto add_tenant = [&](CLI::App* command, std::string* tenant) {
    command
        ->add_option(
            "--tenant", *tenant,
            "tenant of the program: one of 'up --tenants', or one whose Tenant declares the "
            "socket TENANT.sock (default: the user's tenant)")
        ->type_name("TENANT");
  };
  std::string format = "table";
  auto add_format = [&](CLI::App* command) {
    command->add_option("-o,--output", format, "table or json")
        ->type_name("FORMAT")
        ->check(CLI::IsMember({"table", "json"}))
        ->capture_default_str();
  };
  // All arguments after the host, or after "--", belong to the program.
  auto add_program = [&](CLI::App* command, std::vector<std::string>* program) {
    command->add_option("PROGRAM", *program, "the program and its arguments")
        ->type_name("")
        ->required();
  };

  UpOptions up_options;
  CLI::App* up = app.add_subcommand("up", "start a lab and wait until all its daemons are ready");
  add_name(up);
  AddExamples(
      up,
      "  mccs-lab up --hosts 2 --gpus 2\n"
      "  mccs-lab up --tenants team-a,team-b\n"
      "  mccs-lab up --topology tests/testbeds/mccs.yaml --network namespaces      # as root\n"
      "  mccs-lab up --network rdma-vms --hosts 2");
  CLI::Option* hosts = up->add_option("--hosts", up_options.hosts, "number of hosts")
                           ->type_name("N")
                           ->check(CLI::Range(1, kMaxHosts))
                           ->capture_default_str();
  CLI::Option* gpus =
      up->add_option("--gpus", up_options.gpus_per_host, "number of emulated GPUs per host")
          ->type_name("N")
          ->check(CLI::Range(1, kMaxGpusPerHost))
          ->capture_default_str();
  up->add_option("--topology", up_options.topology,
                 "YAML file with the hosts, switches and links (kind: Topology)")
      ->type_name("FILE")
      ->excludes(hosts)
      ->excludes(gpus);
  up->add_option(
        "--network", up_options.network,
        "processes: all hosts share the network of this machine. namespaces: each host "
        "and switch of the topology has a network namespace, each link is a veth pair "
        "with the link's rate, routes are ECMP by the five-tuple or the topology's port "
        "rules; requires root. rdma-vms: each of at most 4 hosts is a virtual machine with "
        "an emulated RDMA device; requires QEMU and Debian's packages. Exits with status "
        "77 if this machine does not support the network")
      ->check(CLI::IsMember({kNetworkOfProcesses, kNetworkOfNamespaces, kNetworkOfRdmaVms}))
      ->capture_default_str();
  up->add_option("--tenants", up_options.tenants,
                 "a,b: tenants with their own socket on every host (see run --tenant), besides the "
                 "default socket, where each user is a tenant")
      ->type_name("TENANT,...")
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  up->add_option("--mccsd-config", up_options.mccsd_config,
                 "YAML file that is added to the configuration of every mccsd (lanes, algorithms, "
                 "…)")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);

  RunOptions run_options;
  double grace_s = 5;
  CLI::App* run =
      app.add_subcommand("run", "run a program, one process per GPU, with torchrun's variables");
  add_name(run);
  AddExamples(run,
              "  mccs-lab run -- build/bin/collective_perf --op all\n"
              "  mccs-lab run --hosts h1,h0 --tenant a -- build/bin/collective_perf");
  run->add_option("--ranks", run_options.ranks, "total number of processes (default: one per GPU)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  run->add_option("--ranks-per-host", run_options.ranks_per_host,
                  "number of processes per host (default: one per GPU)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  run->add_option("--hosts", run_options.hosts,
                  "h2,h1: use only these hosts, with ranks in this order (default: all hosts, in "
                  "the lab's order)")
      ->type_name("HOST,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  run->add_option("--grace", grace_s,
                  "seconds until the other processes are stopped after one has failed")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  add_tenant(run, &run_options.tenant);
  add_program(run, &run_options.program);

  ExecOptions exec_options;
  CLI::App* exec = app.add_subcommand("exec", "run one process on one host");
  add_name(exec);
  AddExamples(exec,
              "  mccs-lab exec h0 -- build/bin/mccsctl get hosts\n"
              "  mccs-lab exec leaf0 -- ip route");
  exec->add_option("HOST", exec_options.host,
                   "h0, h1, …; with --network namespaces also a switch or 'controller'")
      ->required();
  add_tenant(exec, &exec_options.tenant);
  add_program(exec, &exec_options.program);

  std::string daemon;
  CLI::App* env =
      app.add_subcommand("env", "print a host's environment variables as shell export commands");
  add_name(env);
  AddExamples(env, "  eval \"$(mccs-lab env h0)\"");
  env->add_option("HOST", daemon, "h0, h1, …")->required();
  CLI::App* logs = app.add_subcommand("logs", "print a daemon's log");
  add_name(logs);
  AddExamples(logs, "  mccs-lab logs h1\n  mccs-lab logs controller");
  logs->add_option("HOST", daemon, "h0, h1, … or 'controller'")->required();

  std::string status_name;
  CLI::App* status = app.add_subcommand("status", "show the daemons of one lab or of all labs");
  status->add_option("--name", status_name, "name of the lab (default: all)")->type_name("NAME");
  add_format(status);
  AddExamples(status, "  mccs-lab status\n  mccs-lab status --name test -o json");

  CLI::App* links = app.add_subcommand(
      "links",
      "show the links of a lab with a network: one line per direction, with the bytes sent");
  add_name(links);
  add_format(links);
  AddExamples(links, "  mccs-lab links\n  mccs-lab links -o json");
  CLI::App* link = app.add_subcommand("link", "change a link of a lab with a network");
  add_name(link);
  AddExamples(link,
              "  mccs-lab link down leaf0-spine1\n  mccs-lab link rate leaf0 spine1 20Mbit/s");
  link->require_subcommand(1)->fallthrough();
  std::vector<std::string> link_words;
  auto add_link_command = [&](const char* command, const char* description, int more_words) {
    CLI::App* added = link->add_subcommand(command, description)->fallthrough();
    added
        ->add_option(more_words == 0 ? "LINK | END END" : "(LINK | END END) RATE", link_words,
                     more_words == 0
                         ? "name of the link, or its two ends: leaf0 spine1, h1/nic0 leaf0"
                         : "the link as for down, then its rate per direction: leaf0 spine1 "
                           "50Mbit/s")
        ->option_text("REQUIRED")
        ->required()
        ->expected(1 + more_words, 2 + more_words);
    return added;
  };
  CLI::App* link_down = add_link_command("down", "set both ends down and update the routes", 0);
  CLI::App* link_up = add_link_command("up", "set both ends up and update the routes", 0);
  CLI::App* link_rate = add_link_command("rate", "change the link's rate, per direction", 1);
  AddExamples(link_down, "  mccs-lab link down leaf0-spine1\n  mccs-lab link down h1/nic0 leaf0");
  AddExamples(link_up, "  mccs-lab link up leaf0-spine1\n  mccs-lab link up h1/nic0 leaf0");
  AddExamples(link_rate,
              "  mccs-lab link rate leaf0-spine1 20Mbit/s\n"
              "  mccs-lab link rate leaf0 spine1 20Mbit/s");

  CLI::App* down = app.add_subcommand("down", "stop a lab and all programs that run on it");
  add_name(down);
  AddExamples(down, "  mccs-lab down\n  mccs-lab down --name test");

  // Hidden: virtual machines of a lab run it.
  VmAgentOptions agent_options;
  CLI::App* vm_agent = app.add_subcommand("vm-agent", "")->group("");
  vm_agent->add_option("--port", agent_options.port)->required();
  vm_agent->add_option("--key-file", agent_options.key_file)->required();
  vm_agent->add_option("--ready-file", agent_options.ready_file)->required();

  CLI11_PARSE(app, argc, argv);

  const Caller caller = ReadCaller();
  run_options.grace_ns = static_cast<int64_t>(grace_s * kNsPerSec);
  if (up->parsed()) return Finish(Up(caller, name, up_options));
  if (run->parsed()) return Finish(Run(caller, name, run_options));
  if (exec->parsed()) return Finish(Exec(caller, name, exec_options));
  if (env->parsed()) return Finish(Env(caller, name, daemon));
  if (logs->parsed()) return Finish(Logs(caller, name, daemon));
  if (status->parsed()) return Finish(ShowStatus(caller, status_name, format == "json"));
  if (links->parsed()) return Finish(ShowLinks(caller, name, format == "json"));
  if (link_down->parsed()) return Finish(SetLinkUp(caller, name, link_words, false));
  if (link_up->parsed()) return Finish(SetLinkUp(caller, name, link_words, true));
  if (link_rate->parsed()) return Finish(SetLinkRate(caller, name, link_words));
  if (vm_agent->parsed()) return Finish(RunVmAgent(agent_options));
  if (down->parsed()) return Finish(Down(caller, name));
  return 1;
}

}  // namespace
}  // namespace mccs::lab

int main(int argc, char** argv) { return mccs::lab::Main(argc, argv); }
