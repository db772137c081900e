#include "trust/certificate_authority.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr int kSerialBits = 127;  // of 160 at most; random, as RFC 5280 recommends

OpensslPointer<EVP_PKEY> NewKey() { return OpensslPointer<EVP_PKEY>(EVP_EC_gen("P-256")); }

absl::StatusOr<std::string> ToPem(const X509* certificate) {
  const OpensslPointer<BIO> out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(out.get(), const_cast<X509*>(certificate)) != 1)
    return OpensslError("write a certificate");
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(bytes));
}

bool SetName(X509_NAME* name, const std::string& common_name, const std::string& domain) {
  const auto add = [&](const char* field, const std::string& value) {
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  return add("CN", common_name) && add("O", domain);
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OpensslPointer<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Version, serial number, times and key; without names.
OpensslPointer<X509> NewCertificate(EVP_PKEY* key, const Validity& validity) {
  OpensslPointer<X509> certificate(X509_new());
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> serial(BN_new(), &BN_free);
  const bool made =
      certificate != nullptr && serial != nullptr &&
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
      BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), validity.from_s) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), validity.to_s) != nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1;
  return made ? std::move(certificate) : nullptr;
}

// The SPIFFE id of an authority is that of its domain, without a path.
std::string UriOfDomain(const std::string& domain) { return absl::StrCat("spiffe://", domain); }

}  // namespace

absl::StatusOr<CertificateAuthority> CertificateAuthority::Create(const std::string& domain,
                                                                  const Validity& validity) {
  MCCS_RETURN_IF_ERROR(CheckIdentityName(domain));
  OpensslPointer<EVP_PKEY> key = NewKey();
  OpensslPointer<X509> made = key != nullptr ? NewCertificate(key.get(), validity) : nullptr;
  if (made == nullptr) return OpensslError("make a certificate authority");
  X509* const certificate = made.get();
  if (!SetName(X509_get_subject_name(certificate), "MCCS certificate authority", domain) ||
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
      !AddExtension(certificate, certificate, NID_basic_constraints,
                    "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(certificate, certificate, NID_subject_key_identifier, "hash") ||
      !AddExtension(certificate, certificate, NID_subject_alt_name,
                    absl::StrCat("URI:", UriOfDomain(domain))) ||
      X509_sign(certificate, key.get(), EVP_sha256()) == 0) {
    return OpensslError("make a certificate authority");
  }
  return CertificateAuthority(domain, std::move(made), std::move(key));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Load(const CertificateAndKey& pem) {
  OpensslPointer<X509> certificate = CertificateFromPem(pem.certificate);
  OpensslPointer<EVP_PKEY> key = KeyFromPem(pem.key);
  if (certificate == nullptr || key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no ", certificate == nullptr ? "certificate" : "private key without passphrase",
        " in PEM"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return absl::InvalidArgumentError("certificate and private key do not belong together");
  if (X509_check_ca(certificate.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate of '",
                                                   TextOf(X509_get_subject_name(certificate.get())),
                                                   "' is not that of an authority"));
  }
  char domain[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_organizationName, domain,
                            sizeof(domain));
  if (!CheckIdentityName(domain).ok()) {
    return absl::InvalidArgumentError(
        "the authority's certificate names no trust domain (its organization, O)");
  }
  return CertificateAuthority(domain, std::move(certificate), std::move(key));
}

absl::StatusOr<CertificateAndKey> CertificateAuthority::Pem() const {
  CertificateAndKey pem;
  MCCS_ASSIGN_OR_RETURN(pem.certificate, ToPem(certificate_.get()));
  MCCS_ASSIGN_OR_RETURN(pem.key, KeyToPem(key_.get()));
  return pem;
}

absl::StatusOr<CertificateAndKey> CertificateAuthority::Issue(const Identity& identity,
                                                              const Validity& validity) const {
  if (identity.domain != domain_) {
    return absl::InvalidArgumentError(absl::StrCat("the authority issues certificates of ", domain_,
                                                   ", not of ", identity.domain));
  }
  MCCS_RETURN_IF_ERROR(ParseIdentity(ToString(identity)).status());
  const OpensslPointer<EVP_PKEY> key = NewKey();
  const OpensslPointer<X509> made = key != nullptr ? NewCertificate(key.get(), validity) : nullptr;
  if (made == nullptr) return OpensslError("make a certificate");
  X509* const certificate = made.get();
  // Common names are limited to 64 characters (RFC 5280); host names may be longer.
  constexpr size_t kMostCommonName = 64;
  const ASN1_TIME* const last = X509_get0_notAfter(certificate_.get());
  if ((ASN1_TIME_compare(X509_get0_notAfter(certificate), last) > 0 &&
       X509_set1_notAfter(certificate, last) != 1) ||
      !SetName(X509_get_subject_name(certificate), Describe(identity).substr(0, kMostCommonName),
               domain_) ||
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate_.get())) != 1 ||
      !AddExtension(certificate, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(certificate, certificate_.get(), NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(certificate, certificate_.get(), NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(certificate, certificate_.get(), NID_authority_key_identifier, "keyid") ||
      !AddExtension(certificate, certificate_.get(), NID_subject_alt_name,
                    absl::StrCat("URI:", ToString(identity))) ||
      X509_sign(certificate, key_.get(), EVP_sha256()) == 0) {
    return OpensslError("make a certificate");
  }
  CertificateAndKey issued;
  MCCS_ASSIGN_OR_RETURN(issued.certificate, ToPem(certificate));
  MCCS_ASSIGN_OR_RETURN(issued.key, KeyToPem(key.get()));
  return issued;
}

}  // namespace mccs
