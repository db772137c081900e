#include "service/transport/tls/tls_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Of a TLS record.
constexpr size_t kRecordBytes = 16 << 10;
// Read by one call of the connection below. A stranger's connection has no more memory.
constexpr size_t kFeedBytes = 4 * kRecordBytes;
constexpr size_t kHandshakeFeedBytes = 4 << 10;
constexpr size_t kMostAhead = 4 * kRecordBytes;

}  // namespace

TlsConnection::TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                             PeerSecurity::End end, HandshakeThread* thread,
                             uint64_t records_per_key)
    : below_(std::move(connection)),
      thread_(thread),
      session_(std::make_unique<TlsSession>(context, end, records_per_key)),
      first_part_(end == PeerSecurity::End::kClient) {}

TlsConnection::~TlsConnection() {
  if (session_ == nullptr) {
    thread_->Cancel(ticket_);
    return;
  }
  if (!broken_.ok() || handshaking()) return;
  SetWaker(nullptr);  // Its owner may be destroyed already, and the last write may fail.
  session_->Shutdown();
  Flush();
}

const std::string& TlsConnection::peer_host() const {
  static const std::string unknown;
  return session_ != nullptr ? session_->peer_host() : unknown;
}

// ---- Handshake ----------------------------------------------------------------------------------

absl::StatusOr<bool> TlsConnection::Handshake() {
  for (;;) {
    if (session_ == nullptr) return false;
    Flush();  // The other end may need this end's bytes to send any.
    if (!handshaking()) return true;
    if (!first_part_) {
      const absl::StatusOr<bool> fed = Feed();
      if (!fed.ok()) return Break(fed.status());
      if (!*fed) return false;
    }
    first_part_ = false;
    if (thread_ != nullptr) {
      ticket_ = thread_->Add(*this, remote().host, std::move(session_));
      return false;
    }
    const absl::Status computed = session_->Handshake();
    starved_ = false;
    if (computed.ok()) continue;
    Flush();  // The alert has the reason.
    return Break(computed);
  }
}

void TlsConnection::OnComputed(std::unique_ptr<TlsSession> session, const absl::Status& result) {
  session_ = std::move(session);
  starved_ = false;
  Flush();
  if (result.ok()) return WakeOwner();
  (void)Break(result);
}

bool TlsConnection::HandshakeCanContinue() const {
  if (session_ == nullptr) return false;
  const bool sends = unsendable_.ok() && (first_part_ || !session_->encrypted().empty());
  return (sends && below_->writable()) || (!first_part_ && below_->readable());
}

// ---- Bytes --------------------------------------------------------------------------------------

absl::StatusOr<bool> TlsConnection::Feed() {
  if (!below_->readable()) return false;
  const std::span<std::byte> room =
      session_->received().Room(handshaking() ? kHandshakeFeedBytes : kFeedBytes);
  const iovec piece{.iov_base = room.data(), .iov_len = room.size()};
  MCCS_ASSIGN_OR_RETURN(const size_t got, below_->Read({&piece, 1}));
  session_->received().Commit(got);
  if (got == 0) return false;
  starved_ = awaits_peer_ = false;
  return true;
}

bool TlsConnection::Flush() {
  ByteQueue& encrypted = session_->encrypted();
  while (!encrypted.empty()) {
    if (!unsendable_.ok() || !below_->writable()) return false;
    const std::span<const std::byte> bytes = encrypted.bytes();
    const iovec piece{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    const absl::StatusOr<size_t> sent = below_->Write({&piece, 1});
    if (!sent.ok()) {
      unsendable_ = Explain(sent.status());
      WakeOwner();
      return false;
    }
    if (*sent == 0) return false;
    encrypted.Drop(*sent);
  }
  return true;
}

absl::Status TlsConnection::Break(const absl::Status& why) {
  broken_ = Explain(why);
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
  MCCS_ASSIGN_OR_RETURN(const bool complete, Handshake());
  if (!unsendable_.ok()) return unsendable_;
  if (!complete) return 0;
  size_t offered = 0;
  for (const iovec& piece : pieces) offered += piece.iov_len;
  size_t written = 0;
  for (bool blocked = false; written < offered && !blocked;) {
    while (!blocked && written + ahead_ < offered && ahead_ < kMostAhead) {
      MCCS_ASSIGN_OR_RETURN(const size_t taken, EncryptAt(pieces, written + ahead_));
      ahead_ += taken;
      if (taken > 0) unsent_.push_back({.bytes = taken, .end = session_->encrypted_bytes()});
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
  const uint64_t sent_bytes = session_->encrypted_bytes() - session_->encrypted().bytes().size();
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
    const absl::StatusOr<size_t> taken = session_->Encrypt(bytes, count);
    if (!taken.ok()) {
      Flush();  // The alert has the reason.
      return Break(taken.status());
    }
    if (*taken > 0) return *taken;
    Flush();
    const absl::StatusOr<bool> fed = Feed();
    if (!fed.ok()) return Break(fed.status());
    if (*fed) continue;
    if (!unsendable_.ok()) return unsendable_;
    awaits_peer_ = true;
    return 0;
  }
}

absl::StatusOr<size_t> TlsConnection::Decrypt(void* bytes, size_t count) {
  for (;;) {
    const absl::StatusOr<size_t> got = session_->Decrypt(bytes, count);
    if (!got.ok()) {
      Flush();  // The alert has the reason.
      if (!absl::IsUnavailable(got.status())) return got.status();
      return absl::UnavailableError(
          absl::StrCat("reading from ", ToString(remote()), ": ", got.status().message()));
    }
    if (*got > 0) return *got;
    Flush();
    MCCS_ASSIGN_OR_RETURN(const bool fed, Feed());
    if (fed) continue;
    starved_ = true;
    return 0;
  }
}

// After a failed write, bytes that the peer had sent before can still be read.
absl::StatusOr<size_t> TlsConnection::Read(std::span<const iovec> pieces) {
  if (!broken_.ok()) return broken_;
  MCCS_ASSIGN_OR_RETURN(const bool complete, Handshake());
  if (!complete) return 0;
  size_t read = 0;
  for (const iovec& piece : pieces) {
    size_t done = 0;
    while (done < piece.iov_len) {
      const absl::StatusOr<size_t> got =
          Decrypt(static_cast<char*>(piece.iov_base) + done, piece.iov_len - done);
      if (!got.ok()) {
        const absl::Status broken = Break(got.status());
        // Bytes that were read before come first.
        if (read > 0) return read;
        return broken;
      }
      if (*got == 0) return read;
      done += *got;
      read += *got;
    }
  }
  return read;
}

// ---- Readiness ----------------------------------------------------------------------------------

bool TlsConnection::buffered() const {
  return session_->pending() || (!starved_ && !session_->received().empty());
}

bool TlsConnection::readable() const {
  if (!broken_.ok()) return true;
  return handshaking() ? HandshakeCanContinue() : below_->readable() || buffered();
}

bool TlsConnection::writable() const {
  if (!broken_.ok() || !unsendable_.ok()) return true;
  if (handshaking()) return HandshakeCanContinue();
  return awaits_peer_ ? below_->readable() : below_->writable();
}

void TlsConnection::SetWaker(Waker* waker) {
  waker_ = waker;
  below_->SetWaker(waker);
  if (waker_ != nullptr && (!broken_.ok() || (!handshaking() && buffered()))) waker_->Wake();
}

}  // namespace mccs
