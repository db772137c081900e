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

// Calls the controller twice and computes rates from the difference.
absl::StatusOr<control::v1::Explanation> Ask(const Options& options) {
  ControllerClient client(options.controller);
  const absl::StatusOr<control::v1::Explanation> before = client.ExplainCommunicator(options.id);
  if (!before.ok()) return before.status();
  const SteadyClock::time_point begun = SteadyClock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  absl::StatusOr<control::v1::Explanation> after =
      client.ExplainCommunicator(before->summary().id());
  if (!after.ok()) return after.status();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  return WithRates(*before, *std::move(after), seconds);
}

}  // namespace

void DeclareExplain(CLI::App* app, Options* options, Action* action) {
  CLI::App* explain = app->add_subcommand("explain", "Explain the controller's decisions");
  explain->require_subcommand(1);
  explain->footer("Examples:\n  mccsctl explain communicator 3f2a");
  CLI::App* communicator = explain->add_subcommand(
      "communicator",
      "Explain a communicator's rings, the links of its flows, and their fair and actual rates");
  communicator->add_option("ID", options->id, "The communicator's id, or a unique prefix of it")
      ->required();
  AddIntervalOption(communicator, "Interval over which RATE is measured, in seconds [1]", options);
  communicator->footer(
      "FAIR SHARE: fair share of payload if all flows of the cluster send as much as they can,\n"
      "according to each tenant's weight, guarantee and cap. LIMITED BY: the limiting link or\n"
      "limit, and the flows that share it.\n"
      "RATE: measured payload, pauses of the program included. STALLED ON: share of that time in\n"
      "which the flow had data to send and waited for its peer, its rate limit or its connection.\n"
      "\n"
      "Examples:\n  mccsctl explain communicator 3f2a\n"
      "  mccsctl explain communicator 3f2a --interval 5 -o json");
  communicator->callback([=] {
    *action = [=] {
      return Show<control::v1::Explanation>(*options, Ask(*options), RenderExplanation);
    };
  });
}

}  // namespace mccs
