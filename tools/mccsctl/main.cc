// mccsctl: the operators' command line for the controller.
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/commands.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/render.h"
#include "trust/grpc/silent_log.h"

namespace mccs {
namespace {

// In seconds.
constexpr double kShortestTimeout = 0.1;
constexpr double kLongestTimeout = 3600;

// The user that the audit log records: "alice@login1". Not authenticated.
std::string UserName() {
  const passwd* user = getpwuid(geteuid());
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat(
      user != nullptr ? std::string(user->pw_name) : absl::StrCat("uid ", geteuid()), "@", host);
}

void DeclareGet(CLI::App* app, Options* options) {
  CLI::App* get = app->add_subcommand("get", "List hosts, communicators or objects of one kind");
  get->require_subcommand(1);
  get->footer("Examples:\n  mccsctl get hosts\n  mccsctl get communicators -o json");

  CLI::App* hosts = get->add_subcommand("hosts", "Registered hosts: position, GPUs, NICs, state");
  hosts->footer("Examples:\n  mccsctl get hosts\n  mccsctl -o yaml get hosts");
  Select(hosts, options, [=] {
    return Show<control::v1::ListHostsReply>(
        *options, ControllerClient(options->controller).ListHosts(), RenderHosts);
  });

  CLI::App* communicators = get->add_subcommand(
      "communicators", "Communicators: ranks, epoch, strategy, operations, bytes, state");
  communicators->footer(
      "Examples:\n  mccsctl get communicators\n  mccsctl -o json get communicators");
  Select(communicators, options, [=] {
    return Show<control::v1::ListCommunicatorsReply>(
        *options, ControllerClient(options->controller).ListCommunicators(), RenderCommunicators);
  });
  DeclareGetObjects(get, options);
}

void DeclareDescribe(CLI::App* app, Options* options) {
  CLI::App* describe = app->add_subcommand("describe", "Show one communicator or object in full");
  describe->require_subcommand(1);
  describe->footer("Examples:\n  mccsctl describe communicator 3f2a");

  CLI::App* communicator = describe->add_subcommand(
      "communicator", "Show a communicator's ranks, rings and lanes with their source ports");
  communicator->add_option("ID", options->id, "The communicator's id, or a unique prefix of it")
      ->required();
  communicator->footer(
      "Examples:\n  mccsctl describe communicator 3f2a90c1d4e5b607\n"
      "  mccsctl -o json describe communicator 3f2a");
  Select(communicator, options, [=] {
    return Show<control::v1::CommunicatorDetail>(
        *options, ControllerClient(options->controller).DescribeCommunicator(options->id),
        RenderCommunicator);
  });
  DeclareDescribeObjects(describe, options);
}

void DeclareDump(CLI::App* app, Options* options) {
  CLI::App* dump = app->add_subcommand(
      "dump", "Show the full state of a host's daemon: sessions, communicators, lanes");
  dump->add_option("HOST", options->id, "The host's name in 'mccsctl get hosts'")->required();
  dump->footer(
      "JSON, or YAML with -o yaml. The daemon's engine reports its state in parts, one per turn, "
      "and keeps working.\n"
      "\n"
      "Examples:\n  mccsctl dump h0\n  mccsctl dump h0 | jq '.communicators[].operation'");
  Select(dump, options, [=] {
    const absl::StatusOr<control::v1::DumpReply> reply =
        ControllerClient(options->controller).Dump(options->id);
    if (!reply.ok()) return Fail(reply.status());
    return Print(options->output == Output::kYaml ? RenderYaml(reply->daemon())
                                                  : RenderJson(reply->daemon()));
  });
}

void DeclareVersion(CLI::App* app, Options* options) {
  CLI::App* version =
      app->add_subcommand("version", "Show the versions of mccsctl and of the controller");
  version->footer("Examples:\n  mccsctl version");
  Select(version, options, [=] {
    if (options->output == Output::kTable) {
      std::printf("mccsctl          %s\n", kVersion);
      std::fflush(stdout);
    }
    return Show<control::v1::VersionReply>(
        *options, ControllerClient(options->controller).Version(),
        [](const control::v1::VersionReply& reply) {
          return absl::StrCat("mccs-controller  ", reply.version(), "\n");
        });
  });
}

void DeclareCompletion(CLI::App* app, Options* options) {
  CLI::App* completion = app->add_subcommand("completion", "Print a shell completion script");
  completion->require_subcommand(1);
  completion->footer("Examples:\n  source <(mccsctl completion bash)");
  Select(completion->add_subcommand("bash", "Completion script for bash"), options,
         [=] { return Print(BashCompletion(*app)); });
}

void Declare(CLI::App* app, Options* options) {
  app->set_version_flag("--version", absl::StrCat("mccsctl ", kVersion));
  app->add_option("--controller", options->controller.address, "Address of the controller")
      ->type_name("HOST:PORT")
      ->envname("MCCS_CONTROLLER")
      ->capture_default_str();
  app->add_option(
         "--tls", options->controller.tls,
         "Directory of your certificate: ca.crt, tls.crt and tls.key (default: none; for a "
         "controller without TLS)")
      ->type_name("DIR")
      ->envname("MCCS_TLS");
  app->add_option(
         "--token", options->controller.token,
         "File of a bearer token that proves who you are, in place of a certificate; of --tls only "
         "ca.crt is used then")
      ->type_name("FILE")
      ->envname("MCCS_TOKEN_FILE");
  AddSecondsOption(
      app, "--timeout", CLI::Range(kShortestTimeout, kLongestTimeout),
      absl::StrCat("Timeout of a call, in seconds (default ", ControllerClient::kCallSeconds,
                   "; lists ", ControllerClient::kListSeconds, ", dumps ",
                   ControllerClient::kDumpSeconds, ", traces ", ControllerClient::kTraceSeconds,
                   ", changes ", ControllerClient::kChangeSeconds, ")"),
      [options](double seconds) { options->controller.timeout_s = seconds; })
      ->envname("MCCS_CONTROLLER_TIMEOUT");
  app->add_option_function<std::string>(
         "-o,--output", [options](const std::string& word) { options->output = ParseOutput(word); },
         "table, wide, json or yaml (default table)")
      ->type_name("FORMAT");
  app->require_subcommand(1);
  app->fallthrough();
  DeclareGet(app, options);
  DeclareDescribe(app, options);
  DeclareExplain(app, options);
  DeclareTop(app, options);
  DeclareDump(app, options);
  DeclareTrace(app, options);
  DeclareApply(app, options);
  DeclareDiff(app, options);
  DeclareDelete(app, options);
  DeclareDrain(app, options);
  DeclareAudit(app, options);
  DeclareCompletion(app, options);
  DeclareVersion(app, options);
  app->footer(
      "Examples:\n"
      "  mccsctl get hosts\n"
      "  mccsctl --controller 10.0.0.1:7500 get communicators\n"
      "  mccsctl describe communicator 3f2a\n"
      "  mccsctl explain communicator 3f2a\n"
      "  mccsctl top\n"
      "  mccsctl trace communicator 3f2a\n"
      "  mccsctl diff -f policy.yaml\n"
      "  mccsctl apply -f policy.yaml\n"
      "\n"
      "See 'mccsctl COMMAND --help' for details. Exit status: 0 success; 1 failure (diff: "
      "differences found); 2 wrong usage; 3 diff failed.");
}

int Main(int argc, char** argv) {
  Options options;
  options.user = UserName();
  CLI::App app("Shows the state of an MCCS cluster and changes its configuration.", "mccsctl");
  Declare(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitUsage;
  }
  SilenceGrpcLog();
  return options.run();
}

}  // namespace
}  // namespace mccs

// gRPC's threads may still use OpenSSL, which exit() would clean up meanwhile.
int main(int argc, char** argv) {
  const int status = mccs::Main(argc, argv);
  std::fflush(nullptr);
  std::cout.flush();
  std::_Exit(status);
}
