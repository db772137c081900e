// Whether a program's certificate is another one than before, for the reload of a configuration.
// TLS uses new files by itself; this says so, or why they cannot be used.
//
// THREAD: one. Blocks for the disk.
#ifndef MCCS_TRUST_CERTIFICATE_RELOAD_H_
#define MCCS_TRUST_CERTIFICATE_RELOAD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trust/tls_files.h"

namespace mccs {

class CertificateReload {
 public:
  // `files`: those in use; may be empty. LIFETIME: `clock` outlives it.
  CertificateReload(TlsFiles files, const WallClock* clock);

  // "certificate of host h1 until 2026-11-27 14:04:42 UTC" if that is new since the last call.
  // Errors as of CheckTlsFiles.
  absl::StatusOr<std::optional<std::string>> Check();

 private:
  const TlsFiles files_;
  const WallClock* const clock_;
  int64_t end_s_ = 0;  // of the certificate at the last call; 0: it could not be used
};

}  // namespace mccs

#endif  // MCCS_TRUST_CERTIFICATE_RELOAD_H_
