#include "trust/tls_context.h"

#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {

absl::StatusOr<TlsContext> MakeTlsContext(const TlsFiles& files, int64_t now_s) {
  TlsContext context;
  MCCS_ASSIGN_OR_RETURN(context.own, CheckTlsFiles(files, now_s));
  context.ssl.reset(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const ssl = context.ssl.get();
  if (ssl == nullptr || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
      SSL_CTX_use_certificate_chain_file(ssl, files.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(ssl, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      // The files may have been replaced since the first look.
      SSL_CTX_check_private_key(ssl) != 1 ||
      SSL_CTX_load_verify_locations(ssl, files.authority.c_str(), nullptr) != 1 ||
      SSL_CTX_set_num_tickets(ssl, 0) != 1) {
    return OpensslError("use the files of `tls`");
  }
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  return context;
}

}  // namespace mccs
