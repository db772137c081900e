// Mutual TLS for gRPC, with identities of trust/identity.h.
//
// New files need no restart (TlsWatch). Existing connections keep what they have proved.
//
// THREAD: any.
#ifndef MCCS_TRUST_GRPC_CREDENTIALS_H_
#define MCCS_TRUST_GRPC_CREDENTIALS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trust/identity.h"
#include "trust/peer_certificates.h"
#include "trust/tls_files.h"
#include "trust/tls_watch.h"

namespace mccs {

enum class ClientCertificate { kRequired, kOptional };

// Called for each client whose handshake is refused. THREAD: several of gRPC's at a time.
using OnRefusedClient = std::function<void(const RefusedPeer&)>;

struct ServerTls {
  TlsFiles files;
  ClientCertificate clients = ClientCertificate::kRequired;
  OnRefusedClient on_refused = [](const RefusedPeer&) {};
  const WallClock* clock = nullptr;
  TlsWatch::Options watch = {};
};

// Connections use TLS 1.3; each end rejects older versions.
//
// A client's certificate must be of the authority (PeerCertificates); its kind, and with kOptional
// whether it has one, is the service's to check (PeerOf). `on_refused` learns of refused
// certificates only; FailedHandshakes reports the other failures. Errors as of TlsCopy.
// LIFETIME: the clock, the watch's log and what on_refused uses outlive the server.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(const ServerTls& tls);

// The server must be the controller of this trust domain: the address by which it is reached proves
// nothing. A connection fails with a message that names the server's certificate, what is needed
// and the remedy. Errors as of TlsCopy.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(
    const TlsFiles& files, const std::string& domain);

// For a client that has the file of the authority only, and proves who it is by a bearer token in
// each call. REQUIRES: the file has a certificate (TrustDomainOf).
std::shared_ptr<grpc::ChannelCredentials> TokenChannelCredentials(const std::string& authority,
                                                                  const std::string& domain,
                                                                  const std::string& token);

// "the server is refused: …" with the certificate, what is needed and the remedy, if these
// credentials have refused it; empty: the error of the call is another one.
std::string WhyServerRefused(const grpc::Status& status);

// The client of a call, as its certificate proves; nothing: the connection has no TLS, or the
// certificate no identity.
std::optional<Identity> PeerOf(const grpc::AuthContext& context);

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_CREDENTIALS_H_
