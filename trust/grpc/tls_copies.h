// Copies of a program's certificate and key for gRPC 1.51, which reads files itself. It aborts the
// process if one of them is empty, so it gets copies of those only that TlsWatch has accepted.
//
// The copies are files in memory: a program that is killed leaves no key on a disk. A new file
// takes the descriptor of the one before, so each open() gets a complete file.
//
// THREAD: any.
#ifndef MCCS_TRUST_GRPC_TLS_COPIES_H_
#define MCCS_TRUST_GRPC_TLS_COPIES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "trust/tls_files.h"
#include "trust/tls_watch.h"

namespace mccs {

class TlsCopies {
 public:
  // Follows the files. Errors as of TlsWatch::Start, and kResourceExhausted: of descriptors or
  // memory. LIFETIME: the clock and the log of `options` outlive this.
  static absl::StatusOr<std::unique_ptr<TlsCopies>> Make(const TlsFiles& files,
                                                         const WallClock& clock,
                                                         const TlsWatch::Options& options);

  // Paths that this process can open. LIFETIME: as this.
  std::string certificate() const;
  std::string key() const;

 private:
  TlsCopies() = default;
  absl::Status Use(const TlsTexts& texts);

  UniqueFd certificate_;
  UniqueFd key_;
  std::unique_ptr<TlsWatch> watch_;  // ends first: it calls Use
};

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_TLS_COPIES_H_
