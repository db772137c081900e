// TLS 1.3 over a Connection. OpenSSL works on memory only: what it has encrypted goes to the
// connection below as that takes it, and what that has is given to OpenSSL.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/peer_security.h"
#include "trust/tls_context.h"

namespace mccs {

class TlsConnection final : public SecureConnection {
 public:
  // Only hosts of the context's own trust domain are proven. LIFETIME: SSL keeps the context.
  TlsConnection(std::unique_ptr<Connection> connection, const TlsContext& context,
                PeerSecurity::End end);
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
  // Gives OpenSSL bytes of the connection. Returns false if there are none now.
  absl::StatusOr<bool> Feed();
  // Encrypts a record of at most `count` bytes. Returns the bytes used; 0: the handshake is not
  // complete.
  absl::StatusOr<size_t> Encrypt(const void* bytes, size_t count);
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
  const std::unique_ptr<SSL, SslDeleter> ssl_;
  BIO* const received_;   // owned by ssl_
  BIO* const encrypted_;  // likewise
  Waker* waker_ = nullptr;
  std::string peer_host_;
  absl::Status refusal_;  // of the peer's certificate
  absl::Status broken_;
  absl::Status unsendable_;  // of writes; there may be more to read
  size_t unreported_ = 0;     // bytes of a Write whose record is not sent completely
  bool starved_ = true;       // OpenSSL needs more received bytes to go on reading
  bool awaits_peer_ = false;  // and to write: the handshake is not complete
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_CONNECTION_H_
