// Verifies the certificates of TLS peers, and names the reason for a refusal.
//
// The rules are those by which OpenSSL verifies a peer in its handshake: a chain to an authority of
// the file, times, purpose and strength of keys. gRPC can verify too, but does not report which
// certificate it refuses.
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_PEER_CERTIFICATES_H_
#define MCCS_TRUST_PEER_CERTIFICATES_H_

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace mccs {

enum class RefusalReason {
  kExpired,       // a certificate of the chain is not valid at this time
  kForeign,       // the certificate is not one of the authority
  kMissing,       // there is none
  kUnauthorized,  // it has proved who it is, as far as needed, and may not call
  kOther,
};
inline constexpr int kRefusalReasons = 5;
const char* RefusalName(RefusalReason reason);  // "expired"

struct RefusedPeer {
  RefusalReason reason = RefusalReason::kOther;
  // Of the certificate, printable and of limited length; empty: none is known.
  std::string subject;
  std::string message;  // says what is needed and the remedy
};

// A client without one: kMissing.
RefusedPeer WithoutCertificate();

class PeerCertificates {
 public:
  enum class Peers { kClients, kServers };

  // `authority`: path of the authority's certificates in PEM. The file is read at each check, so a
  // new one is used at once; as long as it has no certificates, the last ones remain.
  PeerCertificates(std::string authority, Peers peers);

  // Nothing: the peer has a certificate of an authority, valid at this time, for this purpose.
  // Both in PEM. `between`: what the peer has sent of the certificates between its own and the
  // authority's. REQUIRES: the handshake has proved that the peer has the certificate's key.
  std::optional<RefusedPeer> Check(std::string_view certificate, std::string_view between,
                                   int64_t now_s);

 private:
  struct Rules {
    std::shared_ptr<X509_STORE> authorities;  // null: there are none
    int security_level = 0;
  };

  Rules Current();

  const std::string path_;
  const Peers peers_;
  std::mutex mutex_;  // guards the following members
  std::string pem_;   // of rules_.authorities
  Rules rules_;
};

}  // namespace mccs

#endif  // MCCS_TRUST_PEER_CERTIFICATES_H_
