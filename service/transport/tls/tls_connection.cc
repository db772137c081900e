#include "service/transport/tls/tls_connection.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

constexpr size_t kFeedBytes = 16 << 10;
// Of one TLS record.
constexpr size_t kRecordBytes = 16 << 10;

constexpr char kRemedy[] =
    "; give each host a certificate of the cluster's authority (mccs-controller issue-certificate)";

}  // namespace

TlsConnection::TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                             PeerSecurity::End end)
    : below_(std::move(connection)),
      own_(context.own),
      ssl_(SSL_new(context.ssl.get())),
      received_(BIO_new(BIO_s_mem())),
      encrypted_(BIO_new(BIO_s_mem())) {
  MCCS_CHECK(ssl_ != nullptr && received_ != nullptr && encrypted_ != nullptr);
  BIO_set_mem_eof_return(received_, -1);  // Empty means: not yet.
  SSL_set_bio(ssl_.get(), received_, encrypted_);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, &OnVerify);
  if (end == PeerSecurity::End::kClient) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

TlsConnection::~TlsConnection() {
  if (broken_.ok() && !handshaking()) {
    SSL_shutdown(ssl_.get());
    Flush();
  }
  ERR_clear_error();
}

// ---- Proof of the other end ---------------------------------------------------------------------

int TlsConnection::OnVerify(int valid, X509_STORE_CTX* store) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return static_cast<TlsConnection*>(SSL_get_app_data(ssl))->CheckPeer(valid, store);
}

int TlsConnection::CheckPeer(int valid, X509_STORE_CTX* store) {
  const X509* const certificate = X509_STORE_CTX_get0_cert(store);
  const auto refuse = [&](const auto&... why) {
    refusal_ = absl::UnauthenticatedError(absl::StrCat(
        "rejected the certificate of '", TextOf(X509_get_subject_name(certificate)),
        "', issued by '", TextOf(X509_get_issuer_name(certificate)), "': ", why..., kRemedy));
    return 0;
  };
  if (valid != 1) {
    return refuse(X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)),
                  " (this host's is issued by '", own_.issuer, "')");
  }
  if (X509_STORE_CTX_get_error_depth(store) != 0) return 1;
  const absl::StatusOr<CertificateFacts> facts = FactsOf(certificate);
  if (facts.ok() && facts->identity.kind == Identity::Kind::kHost &&
      facts->identity.domain == own_.identity.domain) {
    peer_host_ = facts->identity.name;
    return 1;
  }
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  if (!facts.ok()) return refuse(std::string(facts.status().message()));
  return refuse("it is that of ", Describe(facts->identity), " in trust domain ",
                facts->identity.domain, ", not of a host in ", own_.identity.domain);
}

// ---- Bytes --------------------------------------------------------------------------------------

absl::StatusOr<bool> TlsConnection::Feed() {
  if (!below_->readable()) return false;
  std::array<std::byte, kFeedBytes> bytes;
  const iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
  MCCS_ASSIGN_OR_RETURN(const size_t got, below_->Read({&piece, 1}));
  if (got == 0) return false;
  MCCS_CHECK(BIO_write(received_, bytes.data(), static_cast<int>(got)) == static_cast<int>(got));
  starved_ = awaits_peer_ = false;
  return true;
}

bool TlsConnection::Flush() {
  char* bytes = nullptr;
  while (const long left = BIO_get_mem_data(encrypted_, &bytes)) {
    if (!unsendable_.ok() || !below_->writable()) return false;
    const iovec piece{.iov_base = bytes, .iov_len = static_cast<size_t>(left)};
    const absl::StatusOr<size_t> sent = below_->Write({&piece, 1});
    if (!sent.ok()) {
      unsendable_ = Explain(sent.status());
      WakeOwner();
      return false;
    }
    if (*sent == 0) return false;
    std::array<char, kFeedBytes> done;  // Reading is how a memory BIO forgets.
    for (size_t rest = *sent; rest > 0;) {
      const int read =
          BIO_read(encrypted_, done.data(), static_cast<int>(std::min(rest, done.size())));
      MCCS_CHECK(read > 0);
      rest -= static_cast<size_t>(read);
    }
  }
  return true;
}

absl::StatusOr<bool> TlsConnection::OnBlocked(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      ERR_clear_error();
      Flush();  // The other end may need this end's bytes to send any.
      return Feed();
    case SSL_ERROR_ZERO_RETURN:
      return absl::UnavailableError(
          absl::StrCat("reading from ", ToString(remote()), ": closed by the peer"));
    default:
      return ProtocolError();
  }
}

absl::Status TlsConnection::ProtocolError() {
  Flush();  // The alert has the reason.
  if (!refusal_.ok()) return refusal_;
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  const char* const words = ERR_reason_error_string(error);
  const std::string text = words != nullptr ? words : "OpenSSL gives no reason";
  ERR_clear_error();
  // Numbers of alerts that the other end has sent.
  if (reason >= SSL_AD_REASON_OFFSET) {
    return absl::UnauthenticatedError(
        absl::StrCat("the peer rejected this host's certificate, that of '", own_.subject,
                     "': ", text, "; see mccsd's log on that host", kRemedy));
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return absl::UnauthenticatedError(absl::StrCat("the peer has no certificate", kRemedy));
  return absl::UnauthenticatedError(
      absl::StrCat("the peer does not speak TLS 1.3 of MCCS daemons: ", text));
}

absl::Status TlsConnection::Break(const absl::Status& why) {
  broken_ = Explain(why);
  ERR_clear_error();
  WakeOwner();
  return broken_;
}

absl::Status TlsConnection::Explain(const absl::Status& why) const {
  if (!handshaking() || !absl::IsUnavailable(why)) return why;
  return absl::UnavailableError(absl::StrCat(
      std::string(why.message()), ", in the TLS handshake; see mccsd's log on that host"));
}

void TlsConnection::WakeOwner() {
  if (waker_ != nullptr) waker_->Wake();
}

absl::StatusOr<size_t> TlsConnection::Write(std::span<const iovec> pieces) {
  if (!broken_.ok()) return broken_;
  if (!unsendable_.ok()) return unsendable_;
  size_t written = 0;
  size_t known = unreported_;  // bytes at the front that are encrypted already
  for (const iovec& piece : pieces) {
    size_t done = std::min(known, piece.iov_len);
    known -= done;
    while (known == 0 && (done < piece.iov_len || unreported_ > 0)) {
      if (unreported_ == 0) {
        MCCS_ASSIGN_OR_RETURN(unreported_, Encrypt(static_cast<const char*>(piece.iov_base) + done,
                                                   std::min(piece.iov_len - done, kRecordBytes)));
        if (unreported_ == 0) return written;
        done += unreported_;
      }
      if (!Flush()) {
        if (!unsendable_.ok()) return unsendable_;
        return written;
      }
      written += std::exchange(unreported_, 0);
    }
  }
  MCCS_CHECK(known == 0);  // A repeated write has the bytes of the first one.
  return written;
}

absl::StatusOr<size_t> TlsConnection::Encrypt(const void* bytes, size_t count) {
  for (;;) {
    ERR_clear_error();
    size_t taken = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, count, &taken);
    if (result == 1) return taken;
    const absl::StatusOr<bool> again = OnBlocked(result);
    if (!again.ok()) return Break(again.status());
    if (*again) continue;
    if (!unsendable_.ok()) return unsendable_;
    awaits_peer_ = true;
    return 0;
  }
}

// After a failed write, bytes that the peer had sent before can still be read.
absl::StatusOr<size_t> TlsConnection::Read(std::span<const iovec> pieces) {
  if (!broken_.ok()) return broken_;
  Flush();
  size_t read = 0;
  for (const iovec& piece : pieces) {
    size_t done = 0;
    while (done < piece.iov_len) {
      ERR_clear_error();
      size_t got = 0;
      const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(piece.iov_base) + done,
                                     piece.iov_len - done, &got);
      if (result == 1) {
        done += got;
        read += got;
        continue;
      }
      const absl::StatusOr<bool> again = OnBlocked(result);
      if (!again.ok()) {
        const absl::Status broken = Break(again.status());
        // Bytes that were read before come first.
        if (read > 0) return read;
        return broken;
      }
      if (*again) continue;
      starved_ = true;
      return read;
    }
  }
  return read;
}

// ---- Readiness ----------------------------------------------------------------------------------

bool TlsConnection::buffered() const {
  return SSL_pending(ssl_.get()) > 0 || (!starved_ && BIO_pending(received_) > 0);
}

bool TlsConnection::readable() const {
  if (!broken_.ok() || below_->readable() || buffered()) return true;
  // A read sends the rest of a handshake's message.
  return handshaking() && unsendable_.ok() && BIO_pending(encrypted_) > 0 && below_->writable();
}

bool TlsConnection::writable() const {
  if (!broken_.ok() || !unsendable_.ok()) return true;
  return awaits_peer_ ? below_->readable() : below_->writable();
}

void TlsConnection::SetWaker(Waker* waker) {
  waker_ = waker;
  below_->SetWaker(waker);
  if (waker_ != nullptr && (!broken_.ok() || buffered())) waker_->Wake();
}

}  // namespace mccs
