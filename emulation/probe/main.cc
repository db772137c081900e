// cuda_probe: checks MCCS's assumptions about CUDA. See --help.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr int kLimitMs = 60'000;  // of one check; a GPU's initialization alone takes seconds
constexpr int kUsageStatus = 2;

constexpr char kHelp[] =
    "usage: cuda_probe [--only NAME]... [--list] [--help]\n"
    "\n"
    "Checks MCCS's assumptions about CUDA on the machine's GPU, or on the emulation if its\n"
    "libcudart.so.13 and libcuda.so.1 come first in LD_LIBRARY_PATH (build/lib/emulation).\n"
    "\n"
    "  --only NAME  run this check; may be given several times\n"
    "  --list       print the checks with their assumptions\n"
    "\n"
    "Some results depend on the number of hardware queues that the streams share: on a GPU\n"
    "CUDA_DEVICE_MAX_CONNECTIONS; on the emulation MCCS_EMULATED_CONNECTIONS overrides it.\n"
    "Exit status: 0 no check failed, 1 a check failed, 2 usage error.\n";

struct Arguments {
  bool list = false;
  bool help = false;
  std::string child;  // --child NAME: run one check in this process
  std::vector<std::string> only;
};

std::optional<Arguments> Parse(int count, char** texts) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view text = texts[i];
    if (text == "--list") {
      arguments.list = true;
    } else if (text == "--help") {
      arguments.help = true;
    } else if (text == "--only" && i + 1 < count) {
      arguments.only.push_back(texts[++i]);
    } else if (text == "--child" && i + 1 < count) {
      arguments.child = texts[++i];
    } else {
      fprintf(stderr, "cuda_probe: unknown argument \"%s\"\n%s", texts[i], kHelp);
      return std::nullopt;
    }
  }
  return arguments;
}

const Check* Find(const std::vector<Check>& checks, const std::string& name) {
  for (const Check& check : checks) {
    if (name == check.name) return &check;
  }
  return nullptr;
}

// Runs in the child. Writes the reason to standard output, which is the parent's pipe. Exits
// without CUDA cleanup: if an assumption is wrong, a stream may wait forever.
[[noreturn]] void RunChild(const Check& check) {
  const Outcome outcome = check.run();
  fputs(outcome.why.c_str(), stdout);
  fflush(stdout);
  _exit(static_cast<int>(outcome.verdict));
}

// Returns everything that the child prints, or empty after the time limit.
std::optional<std::string> ReadWithin(int fd, int limit_ms) {
  std::string text;
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, limit_ms) <= 0) return std::nullopt;
    char part[512];
    const ssize_t got = read(fd, part, sizeof(part));
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

Outcome RunInChild(const Check& check) {
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
  const std::optional<std::string> why = ReadWithin(ends[0], kLimitMs);
  close(ends[0]);
  if (!why) kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!why) return Fail("did not finish within " + std::to_string(kLimitMs / 1000) + " s");
  if (!WIFEXITED(status)) return Fail("terminated by signal " + std::to_string(WTERMSIG(status)));
  switch (WEXITSTATUS(status)) {
    case static_cast<int>(Verdict::kPass):
      return Pass();
    case static_cast<int>(Verdict::kSkip):
      return Skip(*why);
    default:
      return Fail(why->empty() ? "no reason given" : *why);
  }
}

int RunAll(const std::vector<Check>& checks) {
  int counts[3] = {0, 0, 0};
  for (const Check& check : checks) {
    const Outcome outcome = RunInChild(check);
    constexpr const char* kWords[] = {"PASS", "FAIL", "SKIP"};
    const int verdict = static_cast<int>(outcome.verdict);
    ++counts[verdict];
    printf("%s %s%s%s\n", kWords[verdict], check.name, outcome.why.empty() ? "" : ": ",
           outcome.why.c_str());
    fflush(stdout);
  }
  printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  return counts[1] == 0 ? 0 : 1;
}

int Main(int count, char** texts) {
  const std::optional<Arguments> arguments = Parse(count, texts);
  if (!arguments) return kUsageStatus;
  std::vector<Check> all = AllChecks();
  std::sort(all.begin(), all.end(),
            [](const Check& a, const Check& b) { return std::string_view(a.name) < b.name; });
  if (arguments->help) {
    fputs(kHelp, stdout);
    return 0;
  }
  if (arguments->list) {
    for (const Check& check : all) printf("%-32s %s\n", check.name, check.assumption);
    return 0;
  }
  if (!arguments->child.empty()) {
    if (const Check* check = Find(all, arguments->child)) RunChild(*check);
    return kUsageStatus;
  }
  std::vector<Check> chosen;
  for (const std::string& name : arguments->only) {
    const Check* check = Find(all, name);
    if (check == nullptr) {
      fprintf(stderr, "cuda_probe: unknown check \"%s\"; see cuda_probe --list\n", name.c_str());
      return kUsageStatus;
    }
    chosen.push_back(*check);
  }
  return RunAll(chosen.empty() ? all : chosen);
}

}  // namespace
}  // namespace mccs::probe

int main(int count, char** texts) { return mccs::probe::Main(count, texts); }
