// mccs-lab: a cluster on one machine. Reads the command line; lab/commands.cc does the work.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "lab/commands.h"
#include "lab/link_commands.h"

namespace mccs::lab {
namespace {

// As shells and `env` report a program that cannot be started.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// As automake's tests report what this machine cannot do.
constexpr int kExitCannotHere = 77;

constexpr char kParentFolder[] = "/tmp";

int Finish(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cout.flush();
  std::fprintf(stderr, "mccs-lab: %s\n", std::string(status.message()).c_str());
  return absl::IsUnimplemented(status) ? kExitCannotHere : 1;
}

int Finish(const absl::StatusOr<int>& exit_status) {
  if (exit_status.ok()) return *exit_status;
  Finish(exit_status.status());
  if (absl::IsNotFound(exit_status.status())) return kExitNotFound;
  return absl::IsPermissionDenied(exit_status.status()) ? kExitNotExecutable : 1;
}

Caller ReadCaller() {
  Caller caller{.environment = {}, .directories = LabDirectories(kParentFolder)};
  for (char** entry = environ; *entry != nullptr; ++entry) caller.environment.emplace_back(*entry);
  return caller;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "A cluster on one machine: hosts are mccsd processes with emulated GPUs, programs run on "
      "them unchanged. With a topology file and --network namespaces, hosts and switches are "
      "network namespaces and links have rates.",
      "mccs-lab");
  app.require_subcommand(1);
  app.footer(
      "mccs-lab up --hosts 2 --gpus 2\n"
      "mccs-lab run -- build/bin/collective_perf --op all\n"
      "mccs-lab down\n\n"
      "mccs-lab up --topology tests/testbeds/mccs.yaml --network namespaces      # as root\n"
      "mccs-lab exec h1 -- ping -c 1 h2\n"
      "mccs-lab link rate leaf0 spine1 20Mbps\n"
      "mccs-lab links");
  std::string name = "default";
  auto add_name = [&](CLI::App* command) {
    command->add_option("--name", name, "which lab; several can be up at once")
        ->capture_default_str();
  };
  auto add_tenant = [&](CLI::App* command, std::string* tenant) {
    command->add_option("--tenant", *tenant,
                        "whose program it is, of those of up --tenants (default: its user's)");
  };
  // Everything after the host, or after "--", is the program with its own options.
  auto add_program = [&](CLI::App* command, std::vector<std::string>* program) {
    command->add_option("PROGRAM", *program, "the program and its arguments")->required();
  };

  UpOptions up_options;
  CLI::App* up = app.add_subcommand("up", "start a lab; returns when all its daemons are ready");
  add_name(up);
  CLI::Option* hosts = up->add_option("--hosts", up_options.hosts, "how many hosts")
                           ->check(CLI::Range(1, kMaxHosts))
                           ->capture_default_str();
  CLI::Option* gpus =
      up->add_option("--gpus", up_options.gpus_per_host, "emulated GPUs on each host")
          ->check(CLI::Range(1, kMaxGpusPerHost))
          ->capture_default_str();
  up->add_option("--topology", up_options.topology,
                 "file with the hosts, switches and links (kind: Topology)")
      ->excludes(hosts)
      ->excludes(gpus);
  up->add_option("--network", up_options.network,
                 "processes: all hosts share the network of this machine. namespaces: each host "
                 "and switch of the topology has a network namespace, each link is a pair of "
                 "virtual devices with the link's rate, routes are ECMP by the five-tuple or the "
                 "topology's port rules; needs root, and ends with status 77 where this machine "
                 "cannot do it")
      ->check(CLI::IsMember({kNetworkOfProcesses, kNetworkOfNamespaces}))
      ->capture_default_str();
  up->add_option("--tenants", up_options.tenants,
                 "a,b: each gets a socket of its own on every host (run --tenant a), beside the "
                 "common one, where users are tenants")
      ->capture_default_str()
      ->delimiter(',')
      ->allow_extra_args(false);
  up->add_option("--mccsd-config", up_options.mccsd_config,
                 "YAML for the configuration of every mccsd (lanes, algorithms, …)")
      ->check(CLI::ExistingFile);

  RunOptions run_options;
  double grace_s = 5;
  CLI::App* run =
      app.add_subcommand("run", "run a program, one process per GPU, with torchrun's variables");
  add_name(run);
  run->add_option("--ranks", run_options.ranks, "processes in all (default: one for each GPU)")
      ->check(CLI::PositiveNumber);
  run->add_option("--ranks-per-host", run_options.ranks_per_host,
                  "processes on each host (default: one for each GPU)")
      ->check(CLI::PositiveNumber);
  run->add_option("--hosts", run_options.hosts,
                  "h2,h1: on these alone, ranks in this order (default: all, in the lab's order)")
      ->delimiter(',')
      ->allow_extra_args(false);
  run->add_option("--grace", grace_s, "seconds that the others have to end after one has failed")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  add_tenant(run, &run_options.tenant);
  add_program(run, &run_options.program);

  ExecOptions exec_options;
  CLI::App* exec = app.add_subcommand("exec", "run one process on one host");
  add_name(exec);
  exec->add_option("HOST", exec_options.host,
                   "h0, h1, …; with --network namespaces also a switch, or controller")
      ->required();
  add_tenant(exec, &exec_options.tenant);
  add_program(exec, &exec_options.program);

  std::string daemon;
  CLI::App* env =
      app.add_subcommand("env", "print the variables that tie a program to a host, for a shell");
  add_name(env);
  env->add_option("HOST", daemon, "h0, h1, …")->required();
  CLI::App* logs = app.add_subcommand("logs", "print what a daemon has logged");
  add_name(logs);
  logs->add_option("HOST", daemon, "h0, h1, … or controller")->required();

  std::string status_name;
  std::string format = "table";
  CLI::App* status = app.add_subcommand("status", "show the daemons of one lab, or of all");
  status->add_option("--name", status_name, "which lab (default: all)");
  status->add_option("-o,--output", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();

  CLI::App* links = app.add_subcommand(
      "links",
      "show the links of a lab with a network: a line for each direction, with the bytes that have "
      "left its first end");
  add_name(links);
  links->add_option("-o,--output", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  CLI::App* link = app.add_subcommand("link", "change a link of a lab with a network");
  add_name(link);
  link->require_subcommand(1)->fallthrough();
  std::vector<std::string> link_words;
  auto add_link_command = [&](const char* command, const char* description, int more_words) {
    CLI::App* added = link->add_subcommand(command, description)->fallthrough();
    added
        ->add_option(more_words == 0 ? "LINK" : "LINK RATE", link_words,
                     more_words == 0
                         ? "its name, or its two ends: leaf0 spine1, h1/nic0 leaf0"
                         : "the link as for down, then its rate, each way: leaf0 spine1 "
                           "50Mbps")
        ->required()
        ->expected(1 + more_words, 2 + more_words);
    return added;
  };
  CLI::App* link_down =
      add_link_command("down", "both ends go down, and the routes change as they would", 0);
  CLI::App* link_up = add_link_command("up", "it comes back, and so do the routes", 0);
  CLI::App* link_rate = add_link_command("rate", "give it another rate, each way", 1);

  CLI::App* down = app.add_subcommand("down", "end a lab with everything that runs on it");
  add_name(down);

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
  if (down->parsed()) return Finish(Down(caller, name));
  return 1;
}

}  // namespace
}  // namespace mccs::lab

int main(int argc, char** argv) { return mccs::lab::Main(argc, argv); }
