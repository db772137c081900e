// Mutual TLS for gRPC, with identities of trust/identity.h.
//
// Certificates and keys are read again every few seconds: new files need no restart. Existing
// connections keep what they have proved.
//
// THREAD: any.
#ifndef MCCS_TRUST_GRPC_CREDENTIALS_H_
#define MCCS_TRUST_GRPC_CREDENTIALS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "trust/client_certificates.h"
#include "trust/identity.h"
#include "trust/tls_files.h"

namespace mccs {

enum class ClientCertificate { kRequired, kOptional };

// Called for each client whose handshake is refused. THREAD: several of gRPC's at a time.
using OnRefusedClient = std::function<void(const RefusedClient&)>;

struct ServerTls {
  TlsFiles files;
  ClientCertificate clients = ClientCertificate::kRequired;
  OnRefusedClient on_refused = [](const RefusedClient&) {};
  const WallClock* clock = nullptr;
};

// REQUIRES: CheckTlsFiles has accepted the files. A client's certificate must be of the authority
// (ClientCertificates); its kind, and with kOptional whether it has one, is the service's to check
// (PeerOf). `on_refused` learns of refused certificates only; FailedHandshakes reports the other
// failures. LIFETIME: the clock and what on_refused uses outlive the server.
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const ServerTls& tls);

// REQUIRES: as above. The server must be the controller of this trust domain: the address by which
// it is reached proves nothing.
std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsFiles& files,
                                                                const std::string& domain);

// For a client that has the file of the authority only, and proves who it is by a bearer token in
// each call. REQUIRES: the file has a certificate (TrustDomainOf).
std::shared_ptr<grpc::ChannelCredentials> TokenChannelCredentials(const std::string& authority,
                                                                  const std::string& domain,
                                                                  const std::string& token);

// The client of a call, as its certificate proves; nothing: the connection has no TLS, or the
// certificate no identity.
std::optional<Identity> PeerOf(const grpc::AuthContext& context);

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_CREDENTIALS_H_
