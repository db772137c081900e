// OpenSSL's end of a TLS 1.3 connection, on memory only: the peer's bytes go into received(), and
// bytes for the peer come out of encrypted().
//
// THREAD: one at a time: the owning engine, or the handshake thread while it computes
// (handshake_thread.h). Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_SESSION_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_SESSION_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/peer_security.h"
#include "service/transport/tls/byte_queue.h"
#include "trust/tls_context.h"

namespace mccs {

class TlsSession {
 public:
  // Only hosts of the context's own trust domain are proven. After `records_per_key` records a new
  // key encrypts what this end sends. LIFETIME: this keeps the context.
  TlsSession(const TlsContext& context, PeerSecurity::End end, uint64_t records_per_key);

  // Computes the handshake as far as the received bytes go: some tenths of a millisecond. Errors
  // are final: kUnauthenticated as of SecureConnection.
  absl::Status Handshake();
  bool handshaking() const { return handshaking_; }
  // The peer's host; empty until it is proven.
  const std::string& peer_host() const { return peer_host_; }

  // Encrypt at most one record, and decrypt. Return the number of bytes; 0: more received bytes are
  // needed first. Errors are final; kUnavailable: the peer has ended the stream.
  // REQUIRES: !handshaking().
  absl::StatusOr<size_t> Encrypt(const void* bytes, size_t count);
  absl::StatusOr<size_t> Decrypt(void* bytes, size_t count);
  // Adds to encrypted() that no more bytes follow.
  void Shutdown();
  // OpenSSL has decrypted bytes that are not read.
  bool pending() const { return ssl_ != nullptr && SSL_pending(ssl_.get()) > 0; }

  ByteQueue& received() { return received_; }
  const ByteQueue& received() const { return received_; }
  ByteQueue& encrypted() { return encrypted_; }
  const ByteQueue& encrypted() const { return encrypted_; }
  uint64_t encrypted_bytes() const { return encrypted_bytes_; }  // all so far

 private:
  struct SslDeleter {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  void Begin();
  static int OnVerify(int valid, X509_STORE_CTX* store);
  // Returns 1 if the certificate is a host's of the domain; else 0, and sets refusal_.
  int CheckPeer(int valid, X509_STORE_CTX* store);
  // OpenSSL's reads and writes.
  static const BIO_METHOD* QueuesMethod();
  static int OnRead(BIO* bio, char* bytes, size_t count, size_t* done);
  static int OnWrite(BIO* bio, const char* bytes, size_t count, size_t* done);
  static long OnControl(BIO* bio, int command, long number, void* pointer);
  // Explains a result of OpenSSL that is not success. OK: it needs more received bytes.
  absl::Status Explain(int result);
  // The failure of OpenSSL in words.
  absl::Status ProtocolError();

  const TlsContext context_;
  const PeerSecurity::End end_;
  const uint64_t records_per_key_;
  ByteQueue received_;
  ByteQueue encrypted_;
  std::unique_ptr<SSL, SslDeleter> ssl_;  // null until the handshake begins
  bool handshaking_ = true;
  std::string peer_host_;
  absl::Status refusal_;  // of the peer's certificate
  uint64_t encrypted_bytes_ = 0;
  uint64_t records_ = 0;  // with the current key
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_SESSION_H_
