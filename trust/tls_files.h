// The files by which a program of a cluster proves who it is.
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_TLS_FILES_H_
#define MCCS_TRUST_TLS_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trust/certificate.h"

namespace mccs {

// Paths of files in PEM.
struct TlsFiles {
  std::string authority;    // certificates of the authorities that are trusted
  std::string certificate;  // this program's, and those between it and the authority
  std::string key;          // the certificate's, without passphrase

  bool empty() const { return authority.empty() && certificate.empty() && key.empty(); }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

// Contents of the files.
struct TlsTexts {
  std::string authority;
  std::string certificate;
  std::string key;

  friend bool operator==(const TlsTexts&, const TlsTexts&) = default;
};

// kNotFound, kPermissionDenied, kInvalidArgument: as ReadTextFile.
absl::StatusOr<TlsTexts> ReadTlsTexts(const TlsFiles& files);

// Checks that TLS can work with the texts at this time, before any peer does. Returns what the
// certificate says. Errors name file and remedy: kInvalidArgument: not such certificates or key;
// kFailedPrecondition: not valid now, or not issued by the authority.
absl::StatusOr<CertificateFacts> CheckTlsTexts(const TlsFiles& files, const TlsTexts& texts,
                                               int64_t now_s);

// Both of the above.
absl::StatusOr<CertificateFacts> CheckTlsFiles(const TlsFiles& files, int64_t now_s);

// kPermissionDenied: the certificate is another kind of identity's. `program` and `needed` are for
// the message: "mccsd", "a host's".
absl::Status CheckKind(const CertificateFacts& facts, Identity::Kind needed,
                       const std::string& program);

}  // namespace mccs

#endif  // MCCS_TRUST_TLS_FILES_H_
