// A cluster's certificate authority, and the certificates that it issues (X.509, ECDSA P-256).
//
// Each certificate has the SPIFFE id of its holder (trust/identity.h) as its only name of type URI,
// and serves both ends of TLS.
//
// THREAD: one. Blocks for the processor only.
#ifndef MCCS_TRUST_CERTIFICATE_AUTHORITY_H_
#define MCCS_TRUST_CERTIFICATE_AUTHORITY_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "trust/certificate.h"
#include "trust/identity.h"
#include "trust/openssl_pointers.h"

namespace mccs {

// A certificate and its private key, in PEM.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

class CertificateAuthority {
 public:
  // A new authority with a new key. kInvalidArgument: the domain is no name (CheckIdentityName).
  static absl::StatusOr<CertificateAuthority> Create(const std::string& domain,
                                                     const Validity& validity);
  // kInvalidArgument: not a certificate and a key in PEM, they do not belong together, or the
  // certificate is not one that Create makes.
  static absl::StatusOr<CertificateAuthority> Load(const CertificateAndKey& pem);

  const std::string& domain() const { return domain_; }
  absl::StatusOr<CertificateAndKey> Pem() const;

  // A certificate with a new key. It ends no later than the authority's own. kInvalidArgument: the
  // identity is of another domain, or its name is invalid.
  absl::StatusOr<CertificateAndKey> Issue(const Identity& identity, const Validity& validity) const;

 private:
  CertificateAuthority(std::string domain, OpensslPointer<X509> certificate,
                       OpensslPointer<EVP_PKEY> key)
      : domain_(std::move(domain)), certificate_(std::move(certificate)), key_(std::move(key)) {}

  std::string domain_;
  OpensslPointer<X509> certificate_;
  OpensslPointer<EVP_PKEY> key_;
};

}  // namespace mccs

#endif  // MCCS_TRUST_CERTIFICATE_AUTHORITY_H_
