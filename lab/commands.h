// The commands of mccs-lab. Each prints to stdout what it is asked for; main.cc prints errors.
#ifndef MCCS_LAB_COMMANDS_H_
#define MCCS_LAB_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/environment.h"
#include "lab/lab_directory.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// What all commands are given: the caller's world.
struct Caller {
  Environment environment;
  LabDirectories directories;
};

struct RunOptions {
  int32_t ranks = 0;           // 0: one for each GPU
  int32_t ranks_per_host = 0;  // 0: one for each GPU of a host
  int64_t grace_ns = 0;
  std::vector<std::string> program;
};

struct ExecOptions {
  std::string host;
  std::vector<std::string> program;
};

absl::Status Up(const Caller& caller, const std::string& name, LabSize size);
absl::Status Down(const Caller& caller, const std::string& name);
// The exit status for this program. kNotFound and kPermissionDenied from the search for the
// program.
absl::StatusOr<int> Run(const Caller& caller, const std::string& name, const RunOptions& options);
absl::StatusOr<int> Exec(const Caller& caller, const std::string& name, const ExecOptions& options);
absl::Status Env(const Caller& caller, const std::string& name, const std::string& host);
// `daemon`: a host, or "controller".
absl::Status Logs(const Caller& caller, const std::string& name, const std::string& daemon);
// Of one lab, or of all when `name` is empty.
absl::Status ShowStatus(const Caller& caller, const std::string& name, bool as_json);

}  // namespace mccs::lab

#endif  // MCCS_LAB_COMMANDS_H_
