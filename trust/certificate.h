// The content of a certificate: its holder, its issuer's name and its time.
//
// THREAD: any. Pure.
#ifndef MCCS_TRUST_CERTIFICATE_H_
#define MCCS_TRUST_CERTIFICATE_H_

#include <openssl/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trust/identity.h"

namespace mccs {

// Seconds since 1970, both inclusive.
struct Validity {
  int64_t from_s = 0;
  int64_t to_s = 0;

  friend bool operator==(const Validity&, const Validity&) = default;
};

struct CertificateFacts {
  Identity identity;
  std::string subject;  // for messages: "CN=host h1, O=mccs"
  std::string issuer;
  Validity validity;
};

// kInternal: its times are none.
absl::StatusOr<Validity> ValidityOf(const X509* certificate);

// kInvalidArgument: it has not exactly one name of type URI, or that is no Identity.
absl::StatusOr<CertificateFacts> FactsOf(const X509* certificate);

// Of the first certificate in PEM. kInvalidArgument: there is none, or as FactsOf.
absl::StatusOr<CertificateFacts> ParseCertificate(std::string_view pem);

// The trust domain of an authority, by the SPIFFE id of its first certificate in PEM;
// kDefaultTrustDomain if that has none. kInvalidArgument: there is no certificate.
absl::StatusOr<std::string> TrustDomainOf(std::string_view pem);

// kFailedPrecondition: it is not valid at this time; names subject, times and remedy.
absl::Status CheckTime(const CertificateFacts& facts, int64_t now_s);

// "2026-11-27 14:04:42 UTC".
std::string FormatTime(int64_t seconds);

}  // namespace mccs

#endif  // MCCS_TRUST_CERTIFICATE_H_
