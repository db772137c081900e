// mccsctl: what operators ask the controller, from a terminal.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/render.h"

namespace mccs {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr char kDefaultController[] = "127.0.0.1:7500";

enum class Output { kTable, kJson, kYaml };

struct Options {
  std::string controller = kDefaultController;
  Output output = Output::kTable;
  std::string id;
};

// Throws what CLI11 takes for wrong usage.
Output ParseOutput(const std::string& word) {
  if (word == "table") return Output::kTable;
  if (word == "json") return Output::kJson;
  if (word == "yaml") return Output::kYaml;
  throw CLI::ValidationError("--output",
                             absl::StrCat("'", word, "' is no format; table, json and yaml are"));
}

// Prints `answer` as asked for, or says why there is none. Returns the exit status.
template <typename Reply>
int Show(const Options& options, const absl::StatusOr<Reply>& answer,
         const std::function<std::string(const Reply&)>& table) {
  if (!answer.ok()) {
    std::fprintf(stderr, "mccsctl: %s\n", std::string(answer.status().message()).c_str());
    return kExitFailed;
  }
  std::string text;
  switch (options.output) {
    case Output::kTable:
      text = table(*answer);
      break;
    case Output::kJson:
      text = RenderJson(*answer);
      break;
    case Output::kYaml:
      text = RenderYaml(*answer);
      break;
  }
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kExitFailed;
}

void DeclareGet(CLI::App* app, const Options* options, std::function<int()>* action) {
  CLI::App* get = app->add_subcommand("get", "List things of one kind");
  get->require_subcommand(1);
  get->footer("Examples:\n  mccsctl get hosts\n  mccsctl get communicators -o json");

  CLI::App* hosts =
      get->add_subcommand("hosts", "Hosts whose daemons registered: place, GPUs, NICs, state");
  hosts->footer("Examples:\n  mccsctl get hosts\n  mccsctl -o yaml get hosts");
  hosts->callback([=] {
    *action = [=] {
      return Show<control::ListHostsReply>(
          *options, ControllerClient(options->controller).ListHosts(), RenderHosts);
    };
  });

  CLI::App* communicators = get->add_subcommand(
      "communicators", "Communicators: ranks, epoch, strategy, operations, bytes, state");
  communicators->footer(
      "Examples:\n  mccsctl get communicators\n  mccsctl -o json get communicators");
  communicators->callback([=] {
    *action = [=] {
      return Show<control::ListCommunicatorsReply>(
          *options, ControllerClient(options->controller).ListCommunicators(), RenderCommunicators);
    };
  });
}

void DeclareDescribe(CLI::App* app, Options* options, std::function<int()>* action) {
  CLI::App* describe = app->add_subcommand("describe", "Show one thing in full");
  describe->require_subcommand(1);
  describe->footer("Examples:\n  mccsctl describe communicator 3f2a");

  CLI::App* communicator = describe->add_subcommand(
      "communicator", "A communicator's ranks, rings and lanes with their source ports");
  communicator
      ->add_option("ID", options->id, "Its id, or as many first digits as make it the only one")
      ->required();
  communicator->footer(
      "Examples:\n  mccsctl describe communicator 3f2a90c1d4e5b607\n"
      "  mccsctl -o json describe communicator 3f2a");
  communicator->callback([=] {
    *action = [=] {
      return Show<control::CommunicatorDetail>(
          *options, ControllerClient(options->controller).DescribeCommunicator(options->id),
          RenderCommunicator);
    };
  });
}

void DeclareVersion(CLI::App* app, const Options* options, std::function<int()>* action) {
  CLI::App* version =
      app->add_subcommand("version", "The versions of mccsctl and of the controller");
  version->footer("Examples:\n  mccsctl version");
  version->callback([=] {
    *action = [=] {
      if (options->output == Output::kTable) {
        std::printf("mccsctl          %s\n", kVersion);
        std::fflush(stdout);
      }
      return Show<control::VersionReply>(*options, ControllerClient(options->controller).Version(),
                                         [](const control::VersionReply& reply) {
                                           return absl::StrCat("mccs-controller  ", reply.version(),
                                                               "\n");
                                         });
    };
  });
}

void Declare(CLI::App* app, Options* options, std::function<int()>* action) {
  app->set_version_flag("--version", absl::StrCat("mccsctl ", kVersion));
  app->add_option("--controller", options->controller, "Where the controller listens")
      ->type_name("HOST:PORT")
      ->envname("MCCS_CONTROLLER")
      ->capture_default_str();
  app->add_option_function<std::string>(
         "-o,--output", [options](const std::string& word) { options->output = ParseOutput(word); },
         "table, json or yaml [table]")
      ->type_name("FORMAT");
  app->require_subcommand(1);
  app->fallthrough();
  DeclareGet(app, options, action);
  DeclareDescribe(app, options, action);
  DeclareVersion(app, options, action);
  app->footer(
      "Examples:\n"
      "  mccsctl get hosts\n"
      "  mccsctl --controller 10.0.0.1:7500 get communicators\n"
      "  mccsctl describe communicator 3f2a\n"
      "\n"
      "'mccsctl COMMAND --help' tells more. Exit status: 0 done; 1 failed; 2 wrong usage.");
}

int Main(int argc, char** argv) {
  Options options;
  std::function<int()> action;
  CLI::App app("Shows what the controller of an MCCS cluster knows.", "mccsctl");
  Declare(&app, &options, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitUsage;
  }
  // gRPC's own lines are for its developers; what matters reaches us as a status.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  return action();
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
