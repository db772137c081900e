#include "service/transport/tls/tls_connection.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

// Of a TLS record.
constexpr size_t kRecordBytes = 16 << 10;
// Read and sent by one call of the connection below.
constexpr size_t kFeedBytes = 4 * kRecordBytes;
constexpr size_t kMostAhead = 4 * kRecordBytes;

constexpr char kRemedy[] =
    "; give each host a certificate of the cluster's authority (mccs-controller issue-certificate)";

}  // namespace

TlsConnection::TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                             PeerSecurity::End end, uint64_t records_per_key)
    : below_(std::move(connection)),
      own_(context.own),
      records_per_key_(records_per_key),
      ssl_(SSL_new(context.ssl.get())) {
  BIO* const queues = BIO_new(QueuesMethod());
  MCCS_CHECK(ssl_ != nullptr && queues != nullptr);
  BIO_set_data(queues, this);
  BIO_set_init(queues, 1);
  SSL_set_bio(ssl_.get(), queues, queues);
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

const BIO_METHOD* TlsConnection::QueuesMethod() {
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

int TlsConnection::OnRead(BIO* bio, char* bytes, size_t count, size_t* done) {
  ByteQueue& received = static_cast<TlsConnection*>(BIO_get_data(bio))->received_;
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

int TlsConnection::OnWrite(BIO* bio, const char* bytes, size_t count, size_t* done) {
  TlsConnection& self = *static_cast<TlsConnection*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  std::memcpy(self.encrypted_.Room(count).data(), bytes, count);
  self.encrypted_.Commit(count);
  self.encrypted_bytes_ += count;
  *done = count;
  return 1;
}

long TlsConnection::OnControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

absl::StatusOr<bool> TlsConnection::Feed() {
  if (!below_->readable()) return false;
  const std::span<std::byte> room = received_.Room(kFeedBytes);
  const iovec piece{.iov_base = room.data(), .iov_len = room.size()};
  MCCS_ASSIGN_OR_RETURN(const size_t got, below_->Read({&piece, 1}));
  received_.Commit(got);
  if (got == 0) return false;
  starved_ = awaits_peer_ = false;
  return true;
}

bool TlsConnection::Flush() {
  while (!encrypted_.empty()) {
    if (!unsendable_.ok() || !below_->writable()) return false;
    const std::span<const std::byte> bytes = encrypted_.bytes();
    const iovec piece{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    const absl::StatusOr<size_t> sent = below_->Write({&piece, 1});
    if (!sent.ok()) {
      unsendable_ = Explain(sent.status());
      WakeOwner();
      return false;
    }
    if (*sent == 0) return false;
    encrypted_.Drop(*sent);
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

// A caller that offers fewer bytes than before (a limit of its rate) gets those reported; the
// others are on their way.
absl::StatusOr<size_t> TlsConnection::Write(std::span<const iovec> pieces) {
  if (!broken_.ok()) return broken_;
  if (!unsendable_.ok()) return unsendable_;
  size_t offered = 0;
  for (const iovec& piece : pieces) offered += piece.iov_len;
  size_t written = 0;
  for (bool blocked = false; written < offered && !blocked;) {
    while (!blocked && written + ahead_ < offered && ahead_ < kMostAhead) {
      MCCS_ASSIGN_OR_RETURN(const size_t taken, EncryptAt(pieces, written + ahead_));
      ahead_ += taken;
      if (taken > 0) unsent_.push_back({.bytes = taken, .end = encrypted_bytes_});
      blocked = taken == 0;
    }
    blocked |= !Flush();
    if (!unsendable_.ok()) return unsendable_;
    const size_t sent = std::min(TakeSent(), offered - written);
    written += sent;
    ahead_ -= sent;
    sent_ahead_ -= sent;
  }
  return written;
}

// Counts the bytes whose records are sent into sent_ahead_, and returns that.
size_t TlsConnection::TakeSent() {
  const uint64_t sent_bytes = encrypted_bytes_ - encrypted_.bytes().size();
  for (; !unsent_.empty() && unsent_.front().end <= sent_bytes; unsent_.pop_front())
    sent_ahead_ += unsent_.front().bytes;
  return sent_ahead_;
}

absl::StatusOr<size_t> TlsConnection::EncryptAt(std::span<const iovec> pieces, size_t offset) {
  while (offset >= pieces.front().iov_len) {
    offset -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  const std::span first(static_cast<const std::byte*>(pieces.front().iov_base) + offset,
                        pieces.front().iov_len - offset);
  if (first.size() >= kRecordBytes || pieces.size() == 1)
    return Encrypt(first.data(), std::min(first.size(), kRecordBytes));
  // Short pieces, such as headers, share a record: each record costs 22 bytes and a call.
  std::array<std::byte, kRecordBytes> record;
  size_t filled = 0;
  for (const iovec& piece : pieces) {
    const size_t count = std::min(piece.iov_len - offset, record.size() - filled);
    std::memcpy(record.data() + filled, static_cast<const std::byte*>(piece.iov_base) + offset,
                count);
    filled += count;
    offset = 0;
    if (filled == record.size()) break;
  }
  return Encrypt(record.data(), filled);
}

absl::StatusOr<size_t> TlsConnection::Encrypt(const void* bytes, size_t count) {
  for (;;) {
    ERR_clear_error();
    size_t taken = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, count, &taken);
    if (result == 1) {
      if (++records_ >= records_per_key_ &&
          SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
        records_ = 0;
      }
      return taken;
    }
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
  return SSL_pending(ssl_.get()) > 0 || (!starved_ && !received_.empty());
}

bool TlsConnection::readable() const {
  if (!broken_.ok() || below_->readable() || buffered()) return true;
  // A read sends the rest of a handshake's message.
  return handshaking() && unsendable_.ok() && !encrypted_.empty() && below_->writable();
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
