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

#include <memory>
#include <optional>
#include <string>

#include "trust/identity.h"
#include "trust/tls_files.h"

namespace mccs {

enum class ClientCertificate { kRequired, kOptional };

// REQUIRES: CheckTlsFiles has accepted the files. A client's certificate must be of the authority;
// its kind, and whether it has one, is the service's to check (PeerOf).
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(
    const TlsFiles& files, ClientCertificate clients = ClientCertificate::kRequired);

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
