// mccs-lab: a cluster on one machine. Reads the command line; lab/commands.cc does the work.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "lab/commands.h"

namespace mccs::lab {
namespace {

// As shells and `env` report a program that cannot be started.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

constexpr char kParentFolder[] = "/tmp";

int Finish(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cout.flush();
  std::fprintf(stderr, "mccs-lab: %s\n", std::string(status.message()).c_str());
  return 1;
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
      "them unchanged.",
      "mccs-lab");
  app.require_subcommand(1);
  app.footer(
      "mccs-lab up --hosts 2 --gpus 2\n"
      "mccs-lab run -- build/bin/collective_perf --op all\n"
      "mccs-lab down");
  std::string name = "default";
  auto add_name = [&](CLI::App* command) {
    command->add_option("--name", name, "which lab; several can be up at once")
        ->capture_default_str();
  };
  // Everything after the host, or after "--", is the program with its own options.
  auto add_program = [&](CLI::App* command, std::vector<std::string>* program) {
    command->add_option("PROGRAM", *program, "the program and its arguments")->required();
  };

  LabSize size;
  CLI::App* up = app.add_subcommand("up", "start a lab; returns when all its daemons are ready");
  add_name(up);
  up->add_option("--hosts", size.hosts, "how many hosts")
      ->check(CLI::Range(1, kMaxHosts))
      ->capture_default_str();
  up->add_option("--gpus", size.gpus_per_host, "emulated GPUs on each host")
      ->check(CLI::Range(1, kMaxGpusPerHost))
      ->capture_default_str();

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
  run->add_option("--grace", grace_s, "seconds that the others have to end after one has failed")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  add_program(run, &run_options.program);

  ExecOptions exec_options;
  CLI::App* exec = app.add_subcommand("exec", "run one process on one host");
  add_name(exec);
  exec->add_option("HOST", exec_options.host, "h0, h1, …")->required();
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
  CLI::App* down = app.add_subcommand("down", "end a lab with everything that runs on it");
  add_name(down);

  CLI11_PARSE(app, argc, argv);

  const Caller caller = ReadCaller();
  run_options.grace_ns = static_cast<int64_t>(grace_s * kNsPerSec);
  if (up->parsed()) return Finish(Up(caller, name, size));
  if (run->parsed()) return Finish(Run(caller, name, run_options));
  if (exec->parsed()) return Finish(Exec(caller, name, exec_options));
  if (env->parsed()) return Finish(Env(caller, name, daemon));
  if (logs->parsed()) return Finish(Logs(caller, name, daemon));
  if (status->parsed()) return Finish(ShowStatus(caller, status_name, format == "json"));
  return Finish(Down(caller, name));
}

}  // namespace
}  // namespace mccs::lab

int main(int argc, char** argv) { return mccs::lab::Main(argc, argv); }
