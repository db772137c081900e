// SIGHUP: mccsd reads its configuration again. It changes what can change in a running daemon, and
// logs one line that says what has changed and what needs a restart.
//
// OWNER: main. THREAD: one (base/hangup_thread.h), not the engine. Blocks for the disk and for
// resolving host names.
#ifndef MCCS_SERVICE_RELOAD_H_
#define MCCS_SERVICE_RELOAD_H_

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/config_file.h"
#include "base/stderr_log.h"
#include "service/command_line.h"
#include "service/config.h"
#include "service/daemon.h"
#include "trust/certificate_reload.h"

namespace mccs {

class Reload {
 public:
  // `running`: read from `line`. `file`: its configuration file; nothing: it has none. LIFETIME:
  // `clock`, `log` and `daemon` outlive it.
  Reload(CommandLine line, const Config& running, std::optional<ConfigFile> file,
         const WallClock* clock, StderrLog* log, Daemon* daemon)
      : line_(std::move(line)),
        file_(std::move(file)),
        certificate_(running.tls, clock),
        log_(log),
        daemon_(daemon) {}

  void Run();

 private:
  const CommandLine line_;
  std::optional<ConfigFile> file_;
  CertificateReload certificate_;
  StderrLog* const log_;
  Daemon* const daemon_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_RELOAD_H_
