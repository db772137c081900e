// Mutual TLS 1.3 by OpenSSL, for connections that are not gRPC's.
//
// THREAD: any.
#ifndef MCCS_TRUST_TLS_CONTEXT_H_
#define MCCS_TRUST_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "trust/certificate.h"
#include "trust/tls_files.h"

namespace mccs {

struct TlsContext {
  std::shared_ptr<SSL_CTX> ssl;  // for both ends of connections
  CertificateFacts own;
};

// Each end demands a certificate of the authority; who the holder is, a user checks. Sessions are
// not resumed, so that a certificate that has ended opens nothing. `own`: as CheckTlsTexts has
// returned it for `texts`. kInternal: OpenSSL does not accept them, for example a weak key.
absl::StatusOr<TlsContext> MakeTlsContext(const TlsTexts& texts, const CertificateFacts& own);

}  // namespace mccs

#endif  // MCCS_TRUST_TLS_CONTEXT_H_
