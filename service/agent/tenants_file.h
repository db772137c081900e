// The file in which a daemon keeps the controller's Tenants, so that they hold after a restart
// while the controller is away: a line "mccs-tenants 1 BYTES", then agent.Tenants. Replaced
// atomically: a daemon that dies in a write leaves the table of before.
//
// THREAD: any, one at a time per file. Blocks on the disk.
#ifndef MCCS_SERVICE_AGENT_TENANTS_FILE_H_
#define MCCS_SERVICE_AGENT_TENANTS_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/agent.pb.h"

namespace mccs {

// kNotFound: there is no file. kDataLoss: it is not complete, or not of this program; the text names
// it and the remedy.
absl::StatusOr<agent::v1::Tenants> ReadTenantsFile(const std::string& path);

// The text of an error names the file and the remedy.
absl::Status WriteTenantsFile(const std::string& path, const agent::v1::Tenants& tenants);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_TENANTS_FILE_H_
