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

#include "trust/identity.h"
#include "trust/tls_files.h"

namespace mccs {

// REQUIRES: CheckTlsFiles has accepted the files. A client must have a certificate of the
// authority; its kind is the service's to check (PeerOf).
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files);

// REQUIRES: as above. The server must be the controller of this trust domain: the address by which
// it is reached proves nothing.
std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsFiles& files,
                                                                const std::string& domain);

// The client of a call, as its certificate proves; nothing: the connection has no TLS, or the
// certificate no identity.
std::optional<Identity> PeerOf(const grpc::AuthContext& context);

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_CREDENTIALS_H_
