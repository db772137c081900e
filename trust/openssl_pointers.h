// Owners of OpenSSL's objects, and its errors as text.
#ifndef MCCS_TRUST_OPENSSL_POINTERS_H_
#define MCCS_TRUST_OPENSSL_POINTERS_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

struct OpensslDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
template <typename T>
using OpensslPointer = std::unique_ptr<T, OpensslDeleter>;

// kInternal: "cannot WHAT: …" with the oldest error of this thread, which is cleared.
absl::Status OpensslError(std::string_view what);

// All certificates in PEM, up to the first error.
std::vector<OpensslPointer<X509>> CertificatesFromPem(std::string_view pem);
// The first one; null: there is none.
OpensslPointer<X509> CertificateFromPem(std::string_view pem);
// The first private key without passphrase; null: there is none.
OpensslPointer<EVP_PKEY> KeyFromPem(std::string_view pem);
// PEM without passphrase. kInternal: OpenSSL cannot write it.
absl::StatusOr<std::string> KeyToPem(EVP_PKEY* key);

std::string TextOf(const X509_NAME* name);

}  // namespace mccs

#endif  // MCCS_TRUST_OPENSSL_POINTERS_H_
