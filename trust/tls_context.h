// Mutual TLS 1.3 by OpenSSL, for connections that are not gRPC's.
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_TLS_CONTEXT_H_
#define MCCS_TRUST_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trust/certificate.h"
#include "trust/tls_files.h"

namespace mccs {

struct TlsContext {
  std::shared_ptr<SSL_CTX> ssl;  // for both ends of connections
  CertificateFacts own;
};

// Reads the files. Each end demands a certificate of the authority; who the holder is, a user
// checks. Sessions are not resumed, so that a certificate that has ended opens nothing. Errors as
// of CheckTlsFiles.
absl::StatusOr<TlsContext> MakeTlsContext(const TlsFiles& files, int64_t now_s);

}  // namespace mccs

#endif  // MCCS_TRUST_TLS_CONTEXT_H_
