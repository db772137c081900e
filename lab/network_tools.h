// iproute2's `ip` and `tc`, which do all work on devices, routes and queues.
#ifndef MCCS_LAB_NETWORK_TOOLS_H_
#define MCCS_LAB_NETWORK_TOOLS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs::lab {

// Absolute paths.
struct NetworkTools {
  std::string ip;
  std::string tc;
};

// To be searched besides the caller's PATH, which need not be an administrator's.
inline constexpr char kAdministratorsFolders[] = ":/usr/sbin:/sbin";

// Looks in these folders, given as PATH has them. kUnimplemented: one is missing.
absl::StatusOr<NetworkTools> FindNetworkTools(const std::string& folders);

// Runs `TOOL -batch` over the lines in the network of `node`, a holder's process id (lab/node.h),
// and waits for its end. The first line that fails ends it: kInternal with that line and all that
// the tool said. THREAD: the one thread that this program has.
absl::Status RunBatch(const std::string& tool, const std::string& lines, pid_t node);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NETWORK_TOOLS_H_
