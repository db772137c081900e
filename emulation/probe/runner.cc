#include "emulation/probe/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "emulation/probe/figures.h"

namespace mccs::probe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kCheckLimit{60'000};  // a GPU's initialization alone takes seconds

// Returns everything that the child prints, or empty after the time limit.
std::optional<std::string> ReadUntil(int fd, Clock::time_point until) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0) {
      return std::nullopt;
    }
    char part[512];
    const ssize_t got = read(fd, part, sizeof(part));
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

Outcome OutcomeOf(int status, const std::string& text) {
  if (!WIFEXITED(status))
    return Fail(std::string("terminated by signal ") + strsignal(WTERMSIG(status)));
  switch (WEXITSTATUS(status)) {
    case static_cast<int>(Verdict::kPass):
      return Pass(text);
    case static_cast<int>(Verdict::kSkip):
      return Skip(text);
    default:
      return Fail(text.empty() ? "no reason given" : text);
  }
}

// Returns empty if the check did not end in time.
std::optional<Outcome> RunInChild(const Check& check, milliseconds limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Fail("cannot create a pipe");
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);  // so that other processes of a check are killed with it
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "cuda_probe", "--child", check.name, nullptr);
    _exit(kUsageStatus);
  }
  close(ends[1]);
  const std::optional<std::string> text = ReadUntil(ends[0], Clock::now() + limit);
  close(ends[0]);
  if (!text) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!text) return std::nullopt;
  return OutcomeOf(status, *text);
}

// `left`: of the limit of all checks.
Outcome RunWithin(const Check& check, const RunOptions& options, milliseconds left) {
  const std::string limit = options.limit_s ? Text("the limit of %d s", *options.limit_s) : "";
  if (left <= milliseconds::zero()) return Skip("not run: " + limit + " was reached");
  if (const auto outcome = RunInChild(check, std::min(kCheckLimit, left))) return *outcome;
  if (left < kCheckLimit) return Skip("stopped without an outcome: " + limit + " was reached");
  return Fail(Text("did not finish within %d s", static_cast<int>(kCheckLimit.count() / 1000)));
}

}  // namespace

int RunChecks(const std::vector<Check>& checks, const RunOptions& options) {
  const Clock::time_point end = options.limit_s
                                    ? Clock::now() + std::chrono::seconds(*options.limit_s)
                                    : Clock::time_point::max();
  std::vector<Result> results;
  int counts[3] = {0, 0, 0};
  bool written = true;
  for (const Check& check : checks) {
    fprintf(stderr, "[%zu/%zu] %s\n", results.size() + 1, checks.size(), check.name);
    const milliseconds left = options.limit_s
                                  ? std::chrono::duration_cast<milliseconds>(end - Clock::now())
                                  : milliseconds::max();
    const Stopwatch stopwatch;
    const Outcome outcome = RunWithin(check, options, left);
    results.push_back({&check, outcome, stopwatch.ms() / 1e3});
    ++counts[static_cast<int>(outcome.verdict)];
    printf("%s %s%s%s\n", NameOf(outcome.verdict), check.name, outcome.text.empty() ? "" : ": ",
           outcome.text.c_str());
    fflush(stdout);
    if (!options.json_path.empty()) {
      written = WriteJson(options.json_path, results, checks.size() - results.size());
    }
  }
  printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  if (!written) {
    fprintf(stderr, "cuda_probe: cannot write %s: %s\n", options.json_path.c_str(),
            strerror(errno));
  }
  return counts[1] == 0 && written ? 0 : 1;
}

// Writes the text to standard output, which is the parent's pipe. Exits without CUDA cleanup: if an
// assumption is wrong, a stream may wait forever.
void RunHere(const Check& check) {
  const Outcome outcome = check.run();
  fputs(outcome.text.c_str(), stdout);
  fflush(stdout);
  _exit(static_cast<int>(outcome.verdict));
}

}  // namespace mccs::probe
