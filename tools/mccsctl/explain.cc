#include "tools/mccsctl/explain.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/render_explanation.h"
#include "tools/mccsctl/top.h"
#include "tools/mccsctl/work_rates.h"

namespace mccs {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Two answers, and what has gone out between them.
absl::StatusOr<control::Explanation> Ask(const Options& options) {
  ControllerClient client(options.controller);
  const absl::StatusOr<control::Explanation> before = client.ExplainCommunicator(options.id);
  if (!before.ok()) return before.status();
  const SteadyClock::time_point begun = SteadyClock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  absl::StatusOr<control::Explanation> after = client.ExplainCommunicator(before->summary().id());
  if (!after.ok()) return after.status();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  return WithRates(*before, *std::move(after), seconds);
}

}  // namespace

void DeclareExplain(CLI::App* app, Options* options, Action* action) {
  CLI::App* explain = app->add_subcommand("explain", "Say why something is as it is");
  explain->require_subcommand(1);
  explain->footer("Examples:\n  mccsctl explain communicator 3f2a");
  CLI::App* communicator = explain->add_subcommand(
      "communicator",
      "Why these rings, which flow is on which links with whom, what it should get and gets");
  communicator
      ->add_option("ID", options->id, "Its id, or as many first digits as make it the only one")
      ->required();
  AddInterval(communicator, "Seconds over which GETS is measured [1]", options);
  communicator->footer(
      "SHOULD GET: payload, if all flows of the cluster send as much as they can, each tenant by "
      "its\n"
      "weight, guarantee and cap; LIMITED BY says what gives it no more, and who else is there.\n"
      "GETS: payload, pauses of the program included. HELD UP: part of that time in which the "
      "flow\n"
      "had something to send, and waited for its peer, for its rate, or for the connection.\n"
      "\n"
      "Examples:\n  mccsctl explain communicator 3f2a\n"
      "  mccsctl explain communicator 3f2a --interval 5 -o json");
  communicator->callback([=] {
    *action = [=] {
      return Show<control::Explanation>(*options, Ask(*options), RenderExplanation);
    };
  });
}

}  // namespace mccs
