// Commands of mccs-lab for labs, hosts and programs (for links: lab/link_commands.h). Each prints
// its result to stdout; main.cc prints errors.
#ifndef MCCS_LAB_COMMANDS_H_
#define MCCS_LAB_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/lab_state.h"

namespace mccs::lab {

inline constexpr char kNetworkOfProcesses[] = "processes";
inline constexpr char kNetworkOfNamespaces[] = "namespaces";
inline constexpr char kNetworkOfRdmaVms[] = "rdma-vms";

struct UpOptions {
  int32_t hosts = 1;
  int32_t gpus_per_host = 1;
  std::string topology;  // a file that replaces the two fields above; empty: none
  std::string network = kNetworkOfProcesses;
  // Tenants that have their own socket at every daemon, besides the common one.
  std::vector<std::string> tenants = {"a", "b", "c", "d"};
  std::string mccsd_config;  // a YAML file added to every daemon's configuration; empty: none
};

struct RunOptions {
  int32_t ranks = 0;               // 0: one per GPU
  int32_t ranks_per_host = 0;      // 0: one per GPU of a host
  std::vector<std::string> hosts;  // in order of their ranks; empty: all
  std::string tenant;              // whose sockets the program uses; empty: the common ones
  int64_t grace_ns = 0;
  std::vector<std::string> program;
};

struct ExecOptions {
  std::string host;    // in a lab with a network also a switch or the controller
  std::string tenant;  // as in RunOptions
  std::vector<std::string> program;
};

// kUnimplemented: the machine does not support labs with a network.
absl::Status Up(const Caller& caller, const std::string& name, const UpOptions& options);
absl::Status Down(const Caller& caller, const std::string& name);
// Returns the exit status for mccs-lab. kNotFound, kPermissionDenied: the program cannot be
// started.
absl::StatusOr<int> Run(const Caller& caller, const std::string& name, const RunOptions& options);
absl::StatusOr<int> Exec(const Caller& caller, const std::string& name, const ExecOptions& options);
absl::Status Env(const Caller& caller, const std::string& name, const std::string& host);
// `daemon`: a host or "controller".
absl::Status Logs(const Caller& caller, const std::string& name, const std::string& daemon);
// `name` empty: all labs.
absl::Status ShowStatus(const Caller& caller, const std::string& name, bool as_json);

}  // namespace mccs::lab

#endif  // MCCS_LAB_COMMANDS_H_
