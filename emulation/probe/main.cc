// cuda_probe: checks MCCS's assumptions about CUDA. See --help.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/probe/probe.h"
#include "emulation/probe/runner.h"

namespace mccs::probe {
namespace {

constexpr char kHelp[] =
    "usage: cuda_probe [--only NAME]... [--limit SECONDS] [--json FILE] [--list] [--help]\n"
    "\n"
    "Checks MCCS's assumptions about CUDA on the machine's GPU, or on the emulation if its\n"
    "libcudart.so.13 and libcuda.so.1 come first in LD_LIBRARY_PATH (build/lib/emulation).\n"
    "The checks run in the order of their importance.\n"
    "\n"
    "  --only NAME      run this check; may be given several times\n"
    "  --limit SECONDS  time limit of all checks; those that do not fit are skipped\n"
    "  --json FILE      write the results to this file, after each check\n"
    "  --list           print the checks with their assumptions\n"
    "\n"
    "Some results depend on the number of hardware queues that the streams share: on a GPU\n"
    "CUDA_DEVICE_MAX_CONNECTIONS; on the emulation MCCS_EMULATED_CONNECTIONS overrides it.\n"
    "Exit status: 0 no check failed, 1 a check failed, 2 usage error.\n";

struct Arguments {
  bool list = false;
  bool help = false;
  std::string child;  // --child NAME: run one check in this process
  std::vector<std::string> only;
  RunOptions run;
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
    } else if (text == "--json" && i + 1 < count) {
      arguments.run.json_path = texts[++i];
    } else if (text == "--limit" && i + 1 < count && atoi(texts[i + 1]) > 0) {
      arguments.run.limit_s = atoi(texts[++i]);
    } else if (text == "--child" && i + 1 < count) {
      arguments.child = texts[++i];
    } else {
      fprintf(stderr, "cuda_probe: invalid argument \"%s\"\n%s", texts[i], kHelp);
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

int Main(int count, char** texts) {
  const std::optional<Arguments> arguments = Parse(count, texts);
  if (!arguments) return kUsageStatus;
  std::vector<Check> all = AllChecks();
  for (const std::string& name : SortByImportance(&all)) {
    fprintf(stderr, "cuda_probe: order.cc lists \"%s\", which is not a check\n", name.c_str());
    return kUsageStatus;
  }
  if (arguments->help) {
    fputs(kHelp, stdout);
    return 0;
  }
  if (arguments->list) {
    for (const Check& check : all) printf("%-34s %s\n", check.name, check.assumption);
    return 0;
  }
  if (!arguments->child.empty()) {
    if (const Check* check = Find(all, arguments->child)) RunHere(*check);
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
  return RunChecks(chosen.empty() ? all : chosen, arguments->run);
}

}  // namespace
}  // namespace mccs::probe

int main(int count, char** texts) { return mccs::probe::Main(count, texts); }
