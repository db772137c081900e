// Runs checks, each in a process of its own with a time limit, and reports their outcomes.
//
// THREAD: the main thread's. No function calls CUDA, except RunHere's check.
#ifndef MCCS_EMULATION_PROBE_RUNNER_H_
#define MCCS_EMULATION_PROBE_RUNNER_H_

#include <optional>
#include <string>
#include <vector>

#include "emulation/probe/probe.h"

namespace mccs::probe {

inline constexpr int kUsageStatus = 2;

struct RunOptions {
  std::string json_path;       // of a file with the results; empty for none
  std::optional<int> limit_s;  // of all checks together; those that do not fit are skipped
};

// Runs the checks in this order. Prints the outcomes to standard output and the progress to
// standard error. Returns the exit status: 0 if no check failed and the file is written, else 1.
int RunChecks(const std::vector<Check>& checks, const RunOptions& options);

// Runs the check in this process, which RunChecks started with "--child NAME".
[[noreturn]] void RunHere(const Check& check);

struct Result {
  const Check* check = nullptr;
  Outcome outcome;
  double seconds = 0;
};
const char* NameOf(Verdict verdict);  // "PASS", "FAIL", "SKIP"
// Writes the results so far: {"checks": [{"name", "assumption", "outcome", "text", "seconds"}],
// "passed", "failed", "skipped", "remaining"}. Replaces the file at once, so that it is always
// complete. `remaining`: checks that have no result yet. Returns false if the system rejects.
bool WriteJson(const std::string& path, const std::vector<Result>& results, size_t remaining);

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_RUNNER_H_
