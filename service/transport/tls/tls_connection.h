// TLS 1.3 over a Connection. OpenSSL works on memory only (tls_session.h): what it has encrypted
// goes to the connection below as that takes it, and what that has is given to OpenSSL. Bytes count
// as written when the connection below has them.
//
//   handshake:  bytes of the peer ──► a part is computed, by a thread ──► bytes for the peer ──► …
//
// While a part is computed, the session is not here, and the connection is neither readable nor
// writable.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/peer_security.h"
#include "service/transport/tls/handshake_thread.h"
#include "service/transport/tls/tls_session.h"
#include "trust/tls_context.h"

namespace mccs {

class TlsConnection final : public SecureConnection, private HandshakeThread::User {
 public:
  // AES-GCM protects no more than 2^24.5 full records with one key (RFC 8446, section 5.5).
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 23;

  // `thread`: computes the handshake; null: Read and Write do. Context and number as of TlsSession.
  // LIFETIME: the thread outlives this.
  TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                PeerSecurity::End end, HandshakeThread* thread = nullptr,
                uint64_t records_per_key = kRecordsPerKey);
  // Tells the other end that no more bytes follow, if the connection takes that now.
  ~TlsConnection() override;

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override;
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override;
  bool readable() const override;
  bool writable() const override;
  void SetWaker(Waker* waker) override;
  void Mark(uint8_t dscp) override { below_->Mark(dscp); }
  Endpoint local() const override { return below_->local(); }
  Endpoint remote() const override { return below_->remote(); }

  const std::string& peer_host() const override;
  bool handshaking() const override { return session_ == nullptr || session_->handshaking(); }

 private:
  // Makes the handshake as far as it goes now. Returns true if it is complete.
  absl::StatusOr<bool> Handshake();
  bool HandshakeCanContinue() const;
  void OnComputed(std::unique_ptr<TlsSession> session, const absl::Status& result) override;
  // Takes bytes of the connection. Returns false if there are none now.
  absl::StatusOr<bool> Feed();
  // Sends what OpenSSL has encrypted. Returns true if nothing is left. A failure sets unsendable_.
  bool Flush();
  // Encrypts bytes of the pieces from `offset` on as one record. Returns their number; 0: OpenSSL
  // needs bytes of the peer first.
  absl::StatusOr<size_t> EncryptAt(std::span<const iovec> pieces, size_t offset);
  absl::StatusOr<size_t> Encrypt(const void* bytes, size_t count);
  // As TlsSession's, with bytes of the connection.
  absl::StatusOr<size_t> Decrypt(void* bytes, size_t count);
  size_t TakeSent();
  // Ends both directions.
  absl::Status Break(const absl::Status& why);
  absl::Status Explain(const absl::Status& why) const;
  void WakeOwner();
  bool buffered() const;  // received bytes that OpenSSL has not used

  const std::unique_ptr<Connection> below_;
  HandshakeThread* const thread_;
  std::unique_ptr<TlsSession> session_;  // null: a part of the handshake is being computed
  HandshakeThread::Ticket ticket_ = {};  // of that
  Waker* waker_ = nullptr;
  absl::Status broken_;
  absl::Status unsendable_;  // of writes; there may be more to read
  struct Record {
    size_t bytes;  // that it contains
    uint64_t end;  // in the encrypted stream
  };
  std::deque<Record> unsent_;  // the oldest first
  size_t ahead_ = 0;           // bytes at the front of the next Write that are encrypted already
  size_t sent_ahead_ = 0;      // of them, those that the connection below has
  bool first_part_ = false;    // of the handshake: a client's needs no bytes of the peer
  bool starved_ = true;        // OpenSSL needs more received bytes to go on reading
  bool awaits_peer_ = false;   // and to write
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
