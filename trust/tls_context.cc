#include "trust/tls_context.h"

#include <vector>

#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

bool UseTexts(const TlsTexts& texts, SSL_CTX* ssl) {
  const std::vector<OpensslPointer<X509>> chain = CertificatesFromPem(texts.certificate);
  const OpensslPointer<EVP_PKEY> key = KeyFromPem(texts.key);
  if (chain.empty() || key == nullptr) return false;
  if (SSL_CTX_use_certificate(ssl, chain.front().get()) != 1) return false;
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(ssl, chain[i].get()) != 1) return false;
  }
  for (const auto& authority : CertificatesFromPem(texts.authority)) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), authority.get()) != 1) return false;
  }
  return SSL_CTX_use_PrivateKey(ssl, key.get()) == 1;  // fails if it is not the certificate's
}

}  // namespace

absl::StatusOr<TlsContext> MakeTlsContext(const TlsTexts& texts, const CertificateFacts& own) {
  TlsContext context{.ssl = nullptr, .own = own};
  context.ssl.reset(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const ssl = context.ssl.get();
  if (ssl == nullptr || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
      !UseTexts(texts, ssl) || SSL_CTX_set_num_tickets(ssl, 0) != 1) {
    return OpensslError("use the files of `tls`");
  }
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  return context;
}

}  // namespace mccs
