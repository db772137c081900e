// Writes the configuration files of the lab's daemons and reads the files that they write.
#ifndef MCCS_LAB_DAEMON_FILES_H_
#define MCCS_LAB_DAEMON_FILES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// Creates the daemon's directory and configuration. `listen`: ADDRESS:PORT.
absl::Status WriteControllerFiles(const LabPaths& paths, const std::string& listen);
// `tenants`: have their own sockets. `more`: YAML lines appended to the host's configuration; must
// not repeat the keys that the lab writes.
absl::Status WriteHostFiles(const LabPaths& paths, const LabHost& host,
                            const std::string& controller_endpoint,
                            const std::vector<std::string>& tenants, const std::string& more);

// The daemon's host:port; empty until it serves.
std::optional<std::string> ReadEndpoint(const LabPaths& paths, std::string_view daemon);
// host:port of its metrics; set before ReadEndpoint returns a value.
std::optional<std::string> ReadMetricsEndpoint(const LabPaths& paths, std::string_view daemon);

// The last lines of the daemon's log, for an error message.
std::string LogTail(const LabPaths& paths, std::string_view daemon);

}  // namespace mccs::lab

#endif  // MCCS_LAB_DAEMON_FILES_H_
