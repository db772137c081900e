#include "tools/mccsctl/top.h"

#include <signal.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/render.h"
#include "tools/mccsctl/screen.h"
#include "tools/mccsctl/work_rates.h"

namespace mccs {
namespace {

using SteadyClock = std::chrono::steady_clock;

// With shorter intervals most samples would fall between two reports.
constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;

struct Sample {
  control::v1::ListWorkReply work;
  SteadyClock::time_point taken;
};

absl::StatusOr<Sample> TakeSample(ControllerClient& client) {
  absl::StatusOr<control::v1::ListWorkReply> work = client.ListWork();
  if (!work.ok()) return work.status();
  return Sample{*std::move(work), SteadyClock::now()};
}

std::string Draw(const Options& options, const control::v1::TopRates& top) {
  if (options.output == Output::kJson) return RenderJson(top);
  if (options.output == Output::kYaml) return RenderYaml(top);
  return RenderTop(top, options.output == Output::kWide);
}

// Blocks the signals that end the command; Wait takes them between two pictures.
sigset_t BlockStopSignals() {
  sigset_t stops;
  sigemptyset(&stops);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return stops;
}

// True: a signal to stop arrived.
bool Wait(const sigset_t& stops, double seconds) {
  const double whole = std::floor(seconds);
  const timespec time{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  return sigtimedwait(&stops, nullptr, &time) > 0;
}

int RunTop(const Options& options) {
  const sigset_t stops = BlockStopSignals();  // before gRPC makes threads
  ControllerClient client(options.controller);
  absl::StatusOr<Sample> before = TakeSample(client);
  if (!before.ok()) return Fail(before.status());
  std::optional<Screen> screen;
  if (!options.once) screen.emplace();
  for (;;) {
    if (Wait(stops, options.interval_s)) return 0;
    absl::StatusOr<Sample> now = TakeSample(client);
    std::string picture;
    if (now.ok()) {
      const double seconds = std::chrono::duration<double>(now->taken - before->taken).count();
      picture = Draw(options, ComputeRates(before->work, now->work, seconds));
      before = std::move(now);
    } else if (options.once) {
      return Fail(now.status());
    } else {
      // Retry: the controller may return. The last picture would look as if it were current.
      picture = absl::StrCat("mccsctl: ", std::string(now.status().message()), "\n");
    }
    if (options.once) return Print(picture);
    if (!screen->Show(picture)) return 0;
  }
}

}  // namespace

void AddIntervalOption(CLI::App* command, const std::string& description, Options* options) {
  // Accept "4s" as "4".
  const auto without_unit = [](std::string text) {
    if (text.ends_with("s")) text.pop_back();
    return text;
  };
  command->add_option("--interval", options->interval_s, description)
      ->type_name("SECONDS")
      ->transform(without_unit)
      ->check(CLI::Range(kShortestInterval, kLongestInterval));
}

void DeclareTop(CLI::App* app, Options* options, Action* action) {
  CLI::App* top = app->add_subcommand(
      "top", "Show communicators' operations/s, algbw, busbw and links; live until Ctrl-C");
  AddIntervalOption(top, "Refresh interval in seconds [1]", options);
  top->add_flag("--once", options->once, "Measure one interval, print it and exit");
  top->footer(
      "Bandwidths follow nccl-tests, averaged over the whole interval, pauses of the program\n"
      "included. Daemons report every 0.5 s, with the time of their own clock.\n"
      "LINKS: number of links that the lanes use, or of pairs of hosts if no Topology has their\n"
      "links; -o wide lists them by name.\n"
      "\n"
      "Examples:\n  mccsctl top\n  mccsctl top --once --interval 5 -o json");
  top->callback([=] { *action = [=] { return RunTop(*options); }; });
}

}  // namespace mccs
