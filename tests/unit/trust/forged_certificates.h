// Certificates that CertificateAuthority does not make: for tests of those who verify them.
#ifndef MCCS_TESTS_UNIT_TRUST_FORGED_CERTIFICATES_H_
#define MCCS_TESTS_UNIT_TRUST_FORGED_CERTIFICATES_H_

#include <openssl/pem.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trust/certificate.h"
#include "trust/certificate_authority.h"
#include "trust/openssl_pointers.h"

namespace mccs {

inline std::string PemOf(X509* certificate) {
  const OpensslPointer<BIO> out(BIO_new(BIO_s_mem()));
  MCCS_CHECK(PEM_write_bio_X509(out.get(), certificate) == 1);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(bytes));
}

struct ForgedCertificate {
  std::string common_name = "host h1";
  Validity validity;
  // OpenSSL's NID and value.
  std::vector<std::pair<int, std::string>> extensions = {
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
      {NID_subject_alt_name, "URI:spiffe://mccs/host/h1"}};
  int rsa_bits = 0;  // 0: ECDSA P-256

  static std::vector<std::pair<int, std::string>> AuthorityExtensions() {
    return {{NID_basic_constraints, "critical,CA:TRUE"},
            {NID_key_usage, "critical,keyCertSign,cRLSign"}};
  }

  // `issuer`: null: it signs itself.
  CertificateAndKey Make(const CertificateAndKey* issuer) const {
    const OpensslPointer<EVP_PKEY> key(
        rsa_bits > 0 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(rsa_bits))
                     : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
    const OpensslPointer<X509> made(X509_new());
    const OpensslPointer<X509> above =
        issuer == nullptr ? nullptr : CertificateFromPem(issuer->certificate);
    const OpensslPointer<EVP_PKEY> signer = issuer == nullptr ? nullptr : KeyFromPem(issuer->key);
    X509* const certificate = made.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7);
    ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from_s);
    ASN1_TIME_set(X509_getm_notAfter(certificate), validity.to_s);
    X509_set_pubkey(certificate, key.get());
    MCCS_CHECK(
        X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(common_name.data()),
                                   static_cast<int>(common_name.size()), -1, 0) == 1);
    X509_set_issuer_name(certificate,
                         X509_get_subject_name(above == nullptr ? certificate : above.get()));
    for (const auto& [nid, value] : extensions) {
      X509V3_CTX context;
      X509V3_set_ctx(&context, above == nullptr ? certificate : above.get(), certificate, nullptr,
                     nullptr, 0);
      const OpensslPointer<X509_EXTENSION> extension(
          X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
      MCCS_CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
    }
    MCCS_CHECK(X509_sign(certificate, signer == nullptr ? key.get() : signer.get(), EVP_sha256()) >
               0);
    return {.certificate = PemOf(certificate), .key = *KeyToPem(key.get())};
  }
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRUST_FORGED_CERTIFICATES_H_
