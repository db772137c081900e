// cuda_probe: says where this system believes wrongly about CUDA. See --help.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr int kLimitMs = 60'000;  // of one check; a GPU's start alone takes seconds
constexpr int kUsageStatus = 2;

constexpr char kHelp[] =
    "usage: cuda_probe [--only NAME]... [--list] [--help]\n"
    "\n"
    "Checks what MCCS believes about CUDA on the machine's GPU, or on the emulation where its\n"
    "libcudart.so.13 and libcuda.so.1 are found first (LD_LIBRARY_PATH=build/lib/emulation).\n"
    "\n"
    "  --only NAME  run this check; may be given several times\n"
    "  --list       print the checks with what they believe\n"
    "\n"
    "How many hardware queues the streams share changes some of the answers: on a GPU\n"
    "CUDA_DEVICE_MAX_CONNECTIONS, on the emulation before it MCCS_EMULATED_CONNECTIONS.\n"
    "Exit status: 0 no check failed, 1 some did, 2 wrong usage.\n";

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

std::vector<Check> AllChecks() {
  std::vector<Check> all;
  for (const auto& group :
       {WordChecks(), QueueChecks(), KernelChecks(), StreamChecks(), EventChecks(), MemoryChecks(),
        ProcessChecks(), CaptureChecks(), GraphChecks(), VirtualMemoryChecks(), PoolChecks()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

const Check* Find(const std::vector<Check>& checks, const std::string& name) {
  for (const Check& check : checks) {
    if (name == check.name) return &check;
  }
  return nullptr;
}

// In the child: the reason goes to standard output, which is the parent's pipe. The process ends
// without taking CUDA down: a stream may wait for ever where a belief was wrong.
[[noreturn]] void RunChild(const Check& check) {
  const Outcome outcome = check.run();
  fputs(outcome.why.c_str(), stdout);
  fflush(stdout);
  _exit(static_cast<int>(outcome.verdict));
}

// All that the child prints; empty where it took too long.
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

Outcome RunApart(const Check& check) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Fail("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);  // so that the second processes of a check end with it
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
  if (!why) return Fail("did not come to an end in " + std::to_string(kLimitMs / 1000) + " s");
  if (!WIFEXITED(status)) return Fail("crashed with signal " + std::to_string(WTERMSIG(status)));
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
    const Outcome outcome = RunApart(check);
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
  const std::vector<Check> all = AllChecks();
  if (arguments->help) {
    fputs(kHelp, stdout);
    return 0;
  }
  if (arguments->list) {
    for (const Check& check : all) printf("%-32s %s\n", check.name, check.belief);
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
      fprintf(stderr, "cuda_probe: no check is called \"%s\"; --list names them\n", name.c_str());
      return kUsageStatus;
    }
    chosen.push_back(*check);
  }
  return RunAll(chosen.empty() ? all : chosen);
}

}  // namespace
}  // namespace mccs::probe

int main(int count, char** texts) { return mccs::probe::Main(count, texts); }
