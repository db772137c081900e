#include "service/transport/tls/tls_session.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

constexpr char kRemedy[] =
    "; give each host a certificate of the cluster's authority (mccs-controller issue-certificate)";

}  // namespace

TlsSession::TlsSession(const TlsContext& context, PeerSecurity::End end, uint64_t records_per_key)
    : context_(context), end_(end), records_per_key_(records_per_key) {}

// Not in the constructor, so that the handshake thread does it.
void TlsSession::Begin() {
  ssl_.reset(SSL_new(context_.ssl.get()));
  BIO* const queues = BIO_new(QueuesMethod());
  MCCS_CHECK(ssl_ != nullptr && queues != nullptr);
  BIO_set_data(queues, this);
  BIO_set_init(queues, 1);
  SSL_set_bio(ssl_.get(), queues, queues);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, &OnVerify);
  if (end_ == PeerSecurity::End::kClient) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

absl::Status TlsSession::Handshake() {
  ERR_clear_error();
  if (ssl_ == nullptr) Begin();
  const int result = SSL_do_handshake(ssl_.get());
  handshaking_ = SSL_is_init_finished(ssl_.get()) == 0;
  return result == 1 ? absl::OkStatus() : Explain(result);
}

// ---- Proof of the other end ---------------------------------------------------------------------

int TlsSession::OnVerify(int valid, X509_STORE_CTX* store) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return static_cast<TlsSession*>(SSL_get_app_data(ssl))->CheckPeer(valid, store);
}

int TlsSession::CheckPeer(int valid, X509_STORE_CTX* store) {
  const CertificateFacts& own = context_.own;
  const X509* const certificate = X509_STORE_CTX_get0_cert(store);
  const auto refuse = [&](const auto&... why) {
    refusal_ = absl::UnauthenticatedError(absl::StrCat(
        "rejected the certificate of '", TextOf(X509_get_subject_name(certificate)),
        "', issued by '", TextOf(X509_get_issuer_name(certificate)), "': ", why..., kRemedy));
    return 0;
  };
  if (valid != 1) {
    return refuse(X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)),
                  " (this host's is issued by '", own.issuer, "')");
  }
  if (X509_STORE_CTX_get_error_depth(store) != 0) return 1;
  const absl::StatusOr<CertificateFacts> facts = FactsOf(certificate);
  if (facts.ok() && facts->identity.kind == Identity::Kind::kHost &&
      facts->identity.domain == own.identity.domain) {
    peer_host_ = facts->identity.name;
    return 1;
  }
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  if (!facts.ok()) return refuse(std::string(facts.status().message()));
  return refuse("it is that of ", Describe(facts->identity), " in trust domain ",
                facts->identity.domain, ", not of a host in ", own.identity.domain);
}

// ---- Bytes --------------------------------------------------------------------------------------

const BIO_METHOD* TlsSession::QueuesMethod() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "queues");
    MCCS_CHECK(made != nullptr);
    BIO_meth_set_read_ex(made, &OnRead);
    BIO_meth_set_write_ex(made, &OnWrite);
    BIO_meth_set_ctrl(made, &OnControl);
    return made;
  }();
  return method;
}

int TlsSession::OnRead(BIO* bio, char* bytes, size_t count, size_t* done) {
  ByteQueue& received = static_cast<TlsSession*>(BIO_get_data(bio))->received_;
  BIO_clear_retry_flags(bio);
  *done = std::min(count, received.bytes().size());
  if (*done == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  std::memcpy(bytes, received.bytes().data(), *done);
  received.Drop(*done);
  return 1;
}

int TlsSession::OnWrite(BIO* bio, const char* bytes, size_t count, size_t* done) {
  TlsSession& self = *static_cast<TlsSession*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  std::memcpy(self.encrypted_.Room(count).data(), bytes, count);
  self.encrypted_.Commit(count);
  self.encrypted_bytes_ += count;
  *done = count;
  return 1;
}

long TlsSession::OnControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

absl::StatusOr<size_t> TlsSession::Encrypt(const void* bytes, size_t count) {
  ERR_clear_error();
  size_t taken = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes, count, &taken);
  if (result != 1) {
    MCCS_RETURN_IF_ERROR(Explain(result));
    return 0;
  }
  if (++records_ >= records_per_key_ &&
      SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    records_ = 0;
  }
  return taken;
}

absl::StatusOr<size_t> TlsSession::Decrypt(void* bytes, size_t count) {
  ERR_clear_error();
  size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), bytes, count, &got);
  if (result == 1) return got;
  MCCS_RETURN_IF_ERROR(Explain(result));
  return 0;
}

void TlsSession::Shutdown() {
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

// ---- Errors -------------------------------------------------------------------------------------

absl::Status TlsSession::Explain(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      ERR_clear_error();
      return absl::OkStatus();
    case SSL_ERROR_ZERO_RETURN:
      return absl::UnavailableError("closed by the peer");
    default:
      return ProtocolError();
  }
}

absl::Status TlsSession::ProtocolError() {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  const char* const words = ERR_reason_error_string(error);
  const std::string text = words != nullptr ? words : "OpenSSL gives no reason";
  ERR_clear_error();
  if (!refusal_.ok()) return refusal_;
  // Numbers of alerts that the other end has sent.
  if (reason >= SSL_AD_REASON_OFFSET) {
    return absl::UnauthenticatedError(
        absl::StrCat("the peer rejected this host's certificate, that of '", context_.own.subject,
                     "': ", text, "; see mccsd's log on that host", kRemedy));
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return absl::UnauthenticatedError(absl::StrCat("the peer has no certificate", kRemedy));
  return absl::UnauthenticatedError(
      absl::StrCat("the peer does not speak TLS 1.3 of MCCS daemons: ", text));
}

}  // namespace mccs
