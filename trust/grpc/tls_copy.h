// A copy of a program's certificate and key for gRPC 1.51, which reads files itself. It aborts the
// process if one of them is empty, so it gets a copy of those only that TlsWatch has accepted.
//
// The copy is a file in memory: a program that is killed leaves no key on a disk. A new file takes
// the descriptor of the one before, so each open() gets a complete file.
//
// gRPC opens the certificate's file and the key's one after the other, and uses what it has read if
// the times of both are the same before and after. So one file has both, and no two files that
// follow each other have the same time: gRPC never uses a certificate with the key of another.
//
// THREAD: any.
#ifndef MCCS_TRUST_GRPC_TLS_COPY_H_
#define MCCS_TRUST_GRPC_TLS_COPY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "trust/tls_files.h"
#include "trust/tls_watch.h"

namespace mccs {

class TlsCopy {
 public:
  // Follows the files. Errors as of TlsWatch::Start, and kResourceExhausted: of descriptors or
  // memory. LIFETIME: the clock and the log of `options` outlive this.
  static absl::StatusOr<std::unique_ptr<TlsCopy>> Make(const TlsFiles& files,
                                                       const WallClock& clock,
                                                       const TlsWatch::Options& options);

  // A path that this process can open: PEM of the key, then of the certificates. LIFETIME: as this.
  std::string path() const;

 private:
  TlsCopy() = default;
  absl::Status Use(const TlsTexts& texts);

  UniqueFd file_;
  int64_t version_ = 0;              // of the file
  std::unique_ptr<TlsWatch> watch_;  // ends first: it calls Use
};

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_TLS_COPY_H_
