#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/commands.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/render.h"
#include "tools/mccsctl/work_rates.h"

namespace mccs {
namespace {

// xterm control sequences: alternate screen, hidden cursor, no line wrapping.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kClearLine[] = "\033[K";
constexpr char kClearBelow[] = "\033[J";
constexpr size_t kLinesOfUnknown = 24;

bool Write(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0;
}

size_t Lines() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return kLinesOfUnknown;
  return size.ws_row;
}

// The terminal's alternate screen, for output that is refreshed in place. The destructor restores
// the previous contents. If standard output is not a terminal, pictures are printed one after the
// other.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces the last picture; omits lines that do not fit. False: standard output is closed.
  bool Show(const std::string& picture);

 private:
  const bool terminal_;
  bool first_ = true;
};

Screen::Screen() : terminal_(isatty(STDOUT_FILENO) == 1) {
  if (terminal_) Write(kEnter);
}

Screen::~Screen() {
  if (terminal_) Write(kLeave);
}

bool Screen::Show(const std::string& picture) {
  if (!terminal_) {
    const bool first = std::exchange(first_, false);
    return Write(first ? picture : "\n" + picture);
  }
  std::vector<std::string> lines = absl::StrSplit(picture, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t room = Lines();
  if (lines.size() > room) lines.resize(room);
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + kClearLine;
    // No newline after the last line: the terminal would scroll.
    if (i + 1 < lines.size()) text += "\r\n";
  }
  return Write(text + kClearBelow);
}

using SteadyClock = std::chrono::steady_clock;

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
    if (Wait(stops, SecondsToWait(options.interval_s, before->work.report_every_ns()))) return 0;
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

// Calls the controller twice and computes rates from the difference.
absl::StatusOr<control::v1::Explanation> Ask(const Options& options) {
  ControllerClient client(options.controller);
  const absl::StatusOr<control::v1::Explanation> before = client.ExplainCommunicator(options.id);
  if (!before.ok()) return before.status();
  const SteadyClock::time_point begun = SteadyClock::now();
  std::this_thread::sleep_for(
      std::chrono::duration<double>(SecondsToWait(options.interval_s, before->report_every_ns())));
  absl::StatusOr<control::v1::Explanation> after =
      client.ExplainCommunicator(before->summary().id());
  if (!after.ok()) return after.status();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  return WithRates(*before, *std::move(after), seconds);
}

// Adds the option --interval.
void AddIntervalOption(CLI::App* command, const std::string& description, Options* options) {
  AddSecondsOption(command, "--interval", CLI::Range(kShortestInterval, kLongestInterval),
                   description, [options](double seconds) { options->interval_s = seconds; });
}

}  // namespace

void DeclareTop(CLI::App* app, Options* options) {
  CLI::App* top = app->add_subcommand(
      "top", "Show communicators' operations/s, algbw, busbw and links; live until Ctrl-C");
  AddIntervalOption(top, "Refresh interval in seconds (default 1)", options);
  top->add_flag("--once", options->once, "Measure one interval, print it and exit");
  top->footer(
      "Bandwidths follow nccl-tests, averaged over the whole interval, pauses of the program\n"
      "included. Daemons report every 0.5 s, in large clusters less often, with the time of their\n"
      "own clock. Shorter intervals are extended to that of the reports plus 0.25 s.\n"
      "LINKS: number of links that the lanes use; without a Topology, number of pairs of hosts.\n"
      "-o wide lists the names.\n"
      "\n"
      "Examples:\n  mccsctl top\n  mccsctl top --once --interval 5 -o json");
  Select(top, options, [=] { return RunTop(*options); });
}

void DeclareExplain(CLI::App* app, Options* options) {
  CLI::App* explain = app->add_subcommand("explain", "Explain the controller's decisions");
  explain->require_subcommand(1);
  explain->footer("Examples:\n  mccsctl explain communicator 3f2a");
  CLI::App* communicator = explain->add_subcommand(
      "communicator",
      "Explain a communicator's rings, the links of its flows, and their fair and actual rates");
  communicator->add_option("ID", options->id, "The communicator's id, or a unique prefix of it")
      ->required();
  AddIntervalOption(communicator, "Interval over which RATE is measured, in seconds (default 1)",
                    options);
  communicator->footer(
      "FAIR SHARE: fair share of payload if all flows of the cluster send as much as they can,\n"
      "according to each tenant's weight, guarantee and cap. LIMITED BY: the limiting link or\n"
      "limit, and the flows that share it.\n"
      "RATE: measured payload, pauses of the program included. STALLED ON: share of that time in\n"
      "which the flow had data to send but waited for credit (a free slot at its peer), for its\n"
      "rate (limit, send window or priority class) or for its connection.\n"
      "\n"
      "Examples:\n  mccsctl explain communicator 3f2a\n"
      "  mccsctl explain communicator 3f2a --interval 5 -o json");
  Select(communicator, options, [=] {
    return Show<control::v1::Explanation>(*options, Ask(*options), RenderExplanation);
  });
}

}  // namespace mccs
