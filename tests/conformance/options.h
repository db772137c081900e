// The command line.
#ifndef TESTS_CONFORMANCE_OPTIONS_H_
#define TESTS_CONFORMANCE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

// Whether to run the tests of what a managed service guarantees and NCCL leaves undefined.
enum class BeyondNccl { kAuto, kOn, kOff };

struct Options {
  std::vector<std::string> filters;  // parts of names; empty: all
  std::vector<std::string> excluded;
  int gpus_per_process = 0;  // 0: one under a launcher, else all
  bool list = false;
  bool verbose = false;
  bool random = false;
  uint64_t seed = 1;
  int seeds = 20;
  BeyondNccl beyond_nccl = BeyondNccl::kAuto;
  std::chrono::seconds limit{60};
};

struct ParsedOptions {
  Options options;
  std::optional<int> exit_status;  // set if the program must exit
};

ParsedOptions ParseOptions(int argc, char** argv);

// Whether the filters select the test "group/name". A leading slash anchors a filter at the
// beginning of the group.
bool IsChosen(const Options& options, const std::string& name);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_OPTIONS_H_
