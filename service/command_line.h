// The command line of mccsd: commands that print something and end, and the configuration of the
// daemon, from defaults, a file, and flags that override the file.
#ifndef MCCS_SERVICE_COMMAND_LINE_H_
#define MCCS_SERVICE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config.h"

namespace mccs {

// The flag that ChildGpuReader passes to this program.
inline constexpr char kSurveyFlag[] = "--survey-gpus";

struct CommandLine {
  bool print_topology = false;
  bool print_cdi = false;
  std::string library_dir = "/opt/mccs/lib";  // for print_cdi
  bool check_rdma = false;
  bool check_gpus = false;
  bool survey_gpus = false;
  bool print_keys = false;
  std::string config_path;  // empty: no file
  // Values of the flags in `given`.
  Config flags;
  std::vector<std::string Config::*> given;
  std::string log_level;  // empty: the file's
};

// Declares all options. LIFETIME: `line` outlives `app`.
void Declare(CLI::App* app, CommandLine* line);
// Call after app->parse().
void TakeGivenFlags(const CLI::App& app, CommandLine* line);

// Reads the file, and applies the flags. Blocks: it resolves host names. Errors as of ReadConfig;
// kInvalidArgument names the flag.
absl::StatusOr<Config> Configure(const CommandLine& line);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMAND_LINE_H_
