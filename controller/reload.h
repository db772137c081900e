// SIGHUP: mccs-controller reads its configuration again. It changes what can change while it runs
// (the log level, the operators' roles), and logs one line that says what has changed and what
// needs a restart.
//
// OWNER: main. THREAD: one. Blocks for the disk.
#ifndef MCCS_CONTROLLER_RELOAD_H_
#define MCCS_CONTROLLER_RELOAD_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/config_file.h"
#include "base/stderr_log.h"
#include "controller/api/access.h"
#include "controller/config.h"
#include "trust/certificate_reload.h"

namespace mccs {

class ControllerReload {
 public:
  // `configure` reads the configuration as at the start; `running` is its first result. `file`: the
  // configuration file; nothing: there is none. LIFETIME: all pointed to outlives it.
  ControllerReload(std::function<absl::StatusOr<ControllerConfig>()> configure,
                   const ControllerConfig& running, std::optional<ConfigFile> file,
                   const WallClock* clock, Access* access, StderrLog* log)
      : configure_(std::move(configure)),
        file_(std::move(file)),
        certificate_(running.tls, clock),
        access_(access),
        log_(log) {}

  void Run();

 private:
  // Uses the new value of `key`. Returns its description; nothing: that needs a restart.
  std::optional<std::string> Apply(const ControllerConfig& config, const std::string& key);

  const std::function<absl::StatusOr<ControllerConfig>()> configure_;
  std::optional<ConfigFile> file_;
  CertificateReload certificate_;
  Access* const access_;
  StderrLog* const log_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RELOAD_H_
