// A directory of certificates, as Kubernetes lays out a secret of type kubernetes.io/tls.
//
//   ca.crt    the authority's certificate
//   tls.crt   the holder's
//   tls.key   its private key, readable by the owner only
//
// The authority's own directory has ca.crt and ca.key, and by default one directory per holder:
//
//   controller/  hosts/NAME/  operators/NAME/
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_CERTIFICATE_DIRECTORY_H_
#define MCCS_TRUST_CERTIFICATE_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trust/certificate_authority.h"
#include "trust/identity.h"
#include "trust/tls_files.h"

namespace mccs {

// The files in such a directory.
TlsFiles TlsFilesIn(const std::string& directory);

// Writes a new authority. Creates the directory. kAlreadyExists: it contains an authority.
absl::Status WriteAuthority(const std::string& directory, const CertificateAuthority& authority);

// kNotFound, kPermissionDenied: a file cannot be read. Else as CertificateAuthority::Load.
absl::StatusOr<CertificateAuthority> ReadAuthority(const std::string& directory);

// The directory of a holder in that of its authority: "DIRECTORY/hosts/h1".
std::string DirectoryOf(const std::string& authority_directory, const Identity& identity);

// Writes the three files. They replace those that are there in one step, so that none is absent or
// incomplete at any time. A program that opens them meanwhile may get a key of another certificate,
// and has to try again.
absl::Status WriteCertificate(const std::string& directory, const std::string& authority_pem,
                              const CertificateAndKey& issued);

}  // namespace mccs

#endif  // MCCS_TRUST_CERTIFICATE_DIRECTORY_H_
