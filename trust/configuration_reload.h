// The end of each program's reload (SIGHUP), when its reader has checked the new configuration: the
// keys that have changed take effect or need a restart, and the log says which.
//
// THREAD: one at a time. Blocks for the disk.
#ifndef MCCS_TRUST_CONFIGURATION_RELOAD_H_
#define MCCS_TRUST_CONFIGURATION_RELOAD_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/config_file.h"
#include "base/log.h"
#include "trust/certificate_reload.h"

namespace mccs {

// `checked`: the result of the program's reader; an error changes nothing. `file`: nothing if there
// is none. `apply` as of ConfigFile::Reload.
void FinishReload(const absl::Status& checked, std::optional<ConfigFile>& file,
                  CertificateReload& certificate,
                  absl::FunctionRef<std::optional<std::string>(const std::string& key)> apply,
                  Log& log);

}  // namespace mccs

#endif  // MCCS_TRUST_CONFIGURATION_RELOAD_H_
