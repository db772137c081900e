// What a daemon of the lab is started with, and what it leaves for the lab to read.
#ifndef MCCS_LAB_DAEMON_FILES_H_
#define MCCS_LAB_DAEMON_FILES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// Make the daemon's folder and its configuration. `listen`: ADDRESS:PORT.
absl::Status WriteControllerFiles(const LabPaths& paths, const std::string& listen);
// `tenants` have sockets of their own. `more`: lines of YAML for the host's configuration, with
// other keys than the lab's own.
absl::Status WriteHostFiles(const LabPaths& paths, const LabHost& host,
                            const std::string& controller_endpoint,
                            const std::vector<std::string>& tenants, const std::string& more);

// The host:port at which a daemon serves; nothing before it does.
std::optional<std::string> ReadEndpoint(const LabPaths& paths, std::string_view daemon);
// Likewise, of its metrics; there when it serves.
std::optional<std::string> ReadMetricsEndpoint(const LabPaths& paths, std::string_view daemon);

// The last lines of its log, for an error message.
std::string LogTail(const LabPaths& paths, std::string_view daemon);

}  // namespace mccs::lab

#endif  // MCCS_LAB_DAEMON_FILES_H_
