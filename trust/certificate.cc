#include "trust/certificate.h"

#include <openssl/asn1.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

absl::StatusOr<int64_t> SecondsOf(const ASN1_TIME* time) {
  tm broken_down{};
  if (ASN1_TIME_to_tm(time, &broken_down) != 1) return OpensslError("read a certificate's time");
  return static_cast<int64_t>(timegm(&broken_down));
}

// The only name of type URI; empty: there is none, or several.
std::string UriOf(const X509* certificate) {
  const OpensslPointer<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string uri;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (!uri.empty()) return "";
    const ASN1_IA5STRING* const text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
  }
  return uri;
}

}  // namespace

std::string FormatTime(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

absl::StatusOr<Validity> ValidityOf(const X509* certificate) {
  Validity validity;
  MCCS_ASSIGN_OR_RETURN(validity.from_s, SecondsOf(X509_get0_notBefore(certificate)));
  MCCS_ASSIGN_OR_RETURN(validity.to_s, SecondsOf(X509_get0_notAfter(certificate)));
  return validity;
}

absl::StatusOr<CertificateFacts> FactsOf(const X509* certificate) {
  CertificateFacts facts;
  facts.subject = TextOf(X509_get_subject_name(certificate));
  facts.issuer = TextOf(X509_get_issuer_name(certificate));
  MCCS_ASSIGN_OR_RETURN(facts.validity, ValidityOf(certificate));
  const std::string uri = UriOf(certificate);
  absl::StatusOr<Identity> identity = ParseIdentity(uri);
  if (!identity.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate of '", facts.subject, "' has no SPIFFE id of this cluster: ",
                     uri.empty() ? "it needs exactly one name of type URI, "
                                   "such as spiffe://mccs/host/h1"
                                 : std::string(identity.status().message())));
  }
  facts.identity = *std::move(identity);
  return facts;
}

absl::StatusOr<CertificateFacts> ParseCertificate(std::string_view pem) {
  const OpensslPointer<X509> certificate = CertificateFromPem(pem);
  if (certificate == nullptr)
    return absl::InvalidArgumentError("there is no certificate in PEM (BEGIN CERTIFICATE)");
  return FactsOf(certificate.get());
}

absl::StatusOr<std::string> TrustDomainOf(std::string_view pem) {
  constexpr std::string_view kScheme = "spiffe://";
  const OpensslPointer<X509> certificate = CertificateFromPem(pem);
  if (certificate == nullptr)
    return absl::InvalidArgumentError("there is no certificate in PEM (BEGIN CERTIFICATE)");
  const std::string uri = UriOf(certificate.get());
  const std::string_view text = uri;
  return text.starts_with(kScheme) ? std::string(text.substr(kScheme.size()))
                                   : std::string(kDefaultTrustDomain);
}

absl::Status CheckTime(const CertificateFacts& facts, int64_t now_s) {
  if (now_s >= facts.validity.from_s && now_s <= facts.validity.to_s) return absl::OkStatus();
  const bool early = now_s < facts.validity.from_s;
  return absl::FailedPreconditionError(absl::StrCat(
      "the certificate of '", facts.subject, early ? "' is valid only from " : "' expired at ",
      FormatTime(early ? facts.validity.from_s : facts.validity.to_s), "; the clock here says ",
      FormatTime(now_s), early ? ": correct it" : ": install a new certificate"));
}

}  // namespace mccs
