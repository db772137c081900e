// TLS 1.3 over a Connection. OpenSSL works on memory only: what it has encrypted goes to the
// connection below as that takes it, and what that has is given to OpenSSL. Bytes count as written
// when the connection below has them.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/peer_security.h"
#include "service/transport/tls/byte_queue.h"
#include "trust/tls_context.h"

namespace mccs {

class TlsConnection final : public SecureConnection {
 public:
  // AES-GCM protects no more than 2^24.5 full records with one key (RFC 8446, section 5.5).
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 23;

  // Only hosts of the context's own trust domain are proven. After `records_per_key` records a new
  // key encrypts what this end sends. LIFETIME: SSL keeps the context.
  TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                PeerSecurity::End end, uint64_t records_per_key = kRecordsPerKey);
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

  const std::string& peer_host() const override { return peer_host_; }
  bool handshaking() const override { return SSL_is_init_finished(ssl_.get()) == 0; }

 private:
  struct SslDeleter {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  static int OnVerify(int valid, X509_STORE_CTX* store);
  // Returns 1 if the certificate is a host's of the domain; else 0, and sets refusal_.
  int CheckPeer(int valid, X509_STORE_CTX* store);
  // OpenSSL's reads and writes.
  static const BIO_METHOD* QueuesMethod();
  static int OnRead(BIO* bio, char* bytes, size_t count, size_t* done);
  static int OnWrite(BIO* bio, const char* bytes, size_t count, size_t* done);
  static long OnControl(BIO* bio, int command, long number, void* pointer);
  // Takes bytes of the connection. Returns false if there are none now.
  absl::StatusOr<bool> Feed();
  // Encrypts bytes of the pieces from `offset` on as one record. Returns their number; 0: the
  // handshake is not complete.
  absl::StatusOr<size_t> EncryptAt(std::span<const iovec> pieces, size_t offset);
  absl::StatusOr<size_t> Encrypt(const void* bytes, size_t count);
  size_t TakeSent();
  // Sends what OpenSSL has encrypted. Returns true if nothing is left. A failure sets unsendable_.
  bool Flush();
  // Handles a result of SSL_read or SSL_write that is not success: true if a retry may succeed.
  absl::StatusOr<bool> OnBlocked(int result);
  // Ends both directions.
  absl::Status Break(const absl::Status& why);
  absl::Status Explain(const absl::Status& why) const;
  void WakeOwner();  // for an error
  // The failure of OpenSSL in words.
  absl::Status ProtocolError();
  bool buffered() const;  // received bytes that OpenSSL has not used

  const std::unique_ptr<Connection> below_;
  const CertificateFacts own_;
  const uint64_t records_per_key_;
  ByteQueue received_;   // for OpenSSL
  ByteQueue encrypted_;  // for the connection below
  const std::unique_ptr<SSL, SslDeleter> ssl_;
  Waker* waker_ = nullptr;
  std::string peer_host_;
  absl::Status refusal_;  // of the peer's certificate
  absl::Status broken_;
  absl::Status unsendable_;  // of writes; there may be more to read
  struct Record {
    size_t bytes;  // that it contains
    uint64_t end;  // in the encrypted stream
  };
  std::deque<Record> unsent_;     // the oldest first
  uint64_t encrypted_bytes_ = 0;  // all so far
  size_t ahead_ = 0;              // bytes at the front of the next Write that are encrypted already
  size_t sent_ahead_ = 0;         // of them, those that the connection below has
  uint64_t records_ = 0;          // with the current key
  bool starved_ = true;           // OpenSSL needs more received bytes to go on reading
  bool awaits_peer_ = false;      // and to write: the handshake is not complete
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
