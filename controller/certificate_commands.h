// `mccs-controller init-ca` and `mccs-controller issue-certificate`: the certificates of a cluster
// (trust/certificate_directory.h).
//
// THREAD: one. Blocks for the disk.
#ifndef MCCS_CONTROLLER_CERTIFICATE_COMMANDS_H_
#define MCCS_CONTROLLER_CERTIFICATE_COMMANDS_H_

#include <memory>
#include <optional>

#include "base/clock.h"

namespace CLI {
class App;
}

namespace mccs {

class CertificateCommands {
 public:
  // Adds the commands. LIFETIME: `app` and this: until the command line is parsed.
  explicit CertificateCommands(CLI::App* app);
  ~CertificateCommands();

  // Runs the command of the command line, if it was one of these: its exit status. Nothing: it was
  // not.
  std::optional<int> Run(const WallClock& clock) const;

 private:
  struct Options;
  const std::unique_ptr<Options> options_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CERTIFICATE_COMMANDS_H_
