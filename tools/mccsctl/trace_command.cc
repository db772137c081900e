#include <string>

#include "absl/strings/str_cat.h"
#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/commands.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/trace_report.h"

namespace mccs {
namespace {

// As the controller and the daemons limit it.
constexpr uint32_t kMostOperations = 1000;

std::string Draw(const Options& options, const control::v1::TraceReply& reply) {
  if (options.chrome) return RenderChromeTrace(reply);
  if (options.output == Output::kJson) return RenderJson(reply);
  if (options.output == Output::kYaml) return RenderYaml(reply);
  return RenderTrace(reply);
}

// A host without operations is a failure, but the traces of the others are printed.
int RunTrace(const Options& options) {
  const absl::StatusOr<control::v1::TraceReply> reply =
      ControllerClient(options.controller).TraceCommunicator(options.id, options.operations);
  if (!reply.ok()) return Fail(reply.status());
  const std::vector<std::string> missing = HostsWithoutOperations(*reply);
  int status = 0;
  if (missing.size() < static_cast<size_t>(reply->hosts_size()))
    status = Print(Draw(options, *reply));
  for (const std::string& line : missing) status = Fail(absl::AbortedError(line));
  return status;
}

}  // namespace

void DeclareTrace(CLI::App* app, Options* options) {
  CLI::App* trace =
      app->add_subcommand("trace", "Show where the time of a communicator's operations goes");
  trace->require_subcommand(1);
  trace->footer("Examples:\n  mccsctl trace communicator 3f2a");
  CLI::App* communicator = trace->add_subcommand(
      "communicator",
      "Trace the next collectives on every host, and show the time of each hop in nanoseconds");
  communicator->add_option("ID", options->id, "The communicator's id, or a unique prefix of it")
      ->required();
  communicator->add_option("--operations", options->operations, "Number of operations to trace")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, kMostOperations))
      ->capture_default_str();
  communicator
      ->add_option_function<std::string>(
          "-o,--output",
          [options](const std::string& word) {
            options->chrome = word == "chrome";
            if (!options->chrome) options->output = ParseOutput(word, "chrome");
          },
          "table, wide, json, yaml or chrome (default table)")
      ->type_name("FORMAT");
  communicator->footer(
      "Prints a table per host. A hop begins where the hop before it ends. SHARE: its part of the\n"
      "whole time of all traced operations. json has the times of every operation, chrome is the\n"
      "Trace Event format, which Perfetto (https://ui.perfetto.dev) opens.\n"
      "\n"
      "The trace ends after 10 s if fewer operations run. Ctrl-C ends it earlier. Sends, receives\n"
      "and one-sided calls are not traced. Exit status 1: a host has no operations.\n"
      "\n"
      "Examples:\n  mccsctl trace communicator 3f2a\n"
      "  mccsctl trace communicator 3f2a --operations 1000 -o json\n"
      "  mccsctl trace communicator 3f2a -o chrome > trace.json");
  Select(communicator, options, [=] { return RunTrace(*options); });
}

}  // namespace mccs
