// The commands of mccs-lab that concern hosts and programs (lab/link_commands.h has those about
// links). Each prints to stdout what it is asked for; main.cc prints errors.
#ifndef MCCS_LAB_COMMANDS_H_
#define MCCS_LAB_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/caller.h"

namespace mccs::lab {

inline constexpr char kNetworkOfProcesses[] = "processes";
inline constexpr char kNetworkOfNamespaces[] = "namespaces";

struct UpOptions {
  int32_t hosts = 1;
  int32_t gpus_per_host = 1;
  std::string topology;  // a file, which stands in for the two above; empty: none
  std::string network = kNetworkOfProcesses;
  // Whose sockets every daemon has, beside the common one.
  std::vector<std::string> tenants = {"a", "b", "c", "d"};
  std::string mccsd_config;  // a file of YAML for every host's daemon; empty: none
};

struct RunOptions {
  int32_t ranks = 0;               // 0: one for each GPU
  int32_t ranks_per_host = 0;      // 0: one for each GPU of a host
  std::vector<std::string> hosts;  // in the order of their ranks; empty: all
  std::string tenant;              // that opens their sockets; empty: the common one
  int64_t grace_ns = 0;
  std::vector<std::string> program;
};

struct ExecOptions {
  std::string host;    // in a lab with a network also a switch, or the controller
  std::string tenant;  // as above
  std::vector<std::string> program;
};

// kUnimplemented: the machine does not have what the network takes.
absl::Status Up(const Caller& caller, const std::string& name, const UpOptions& options);
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
