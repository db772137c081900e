// Runs iproute2's `ip` and `tc`, which configure devices, routes and queues, and finds free ports.
#ifndef MCCS_LAB_NETWORK_TOOLS_H_
#define MCCS_LAB_NETWORK_TOOLS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs::lab {

// Absolute paths.
struct NetworkTools {
  std::string ip;
  std::string tc;
};

// Appended to the caller's PATH, which may lack the administrators' directories.
inline constexpr char kAdministratorDirectories[] = ":/usr/sbin:/sbin";

// Searches `directories`, in the format of PATH. kUnimplemented: a tool is missing.
absl::StatusOr<NetworkTools> FindNetworkTools(const std::string& directories);

// Runs `TOOL -batch` with the lines in the network of `node`, a holder's pid (lab/node.h), and
// waits for its end. It stops at the first line that fails: kInternal with that line and the tool's
// output. THREAD: the program's only thread.
absl::Status RunBatch(const std::string& tool, const std::string& lines, pid_t node);

// A TCP port that is free now at the address. Another process can still take it before the caller
// listens on it.
absl::StatusOr<uint16_t> FreePort(const std::string& address);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NETWORK_TOOLS_H_
