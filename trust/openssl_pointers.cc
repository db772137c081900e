#include "trust/openssl_pointers.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

OpensslPointer<BIO> Reader(std::string_view text) {
  return OpensslPointer<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key with a passphrase is rejected: daemons have no person to enter it.
int NoPassphrase(char* /*buffer*/, int /*bytes*/, int /*writes*/, void* /*context*/) { return -1; }

}  // namespace

absl::Status OpensslError(std::string_view what) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return absl::InternalError(absl::StrCat("cannot ", std::string(what), ": ",
                                          reason != nullptr ? reason : "OpenSSL gives no reason"));
}

std::vector<OpensslPointer<X509>> CertificatesFromPem(std::string_view pem) {
  const OpensslPointer<BIO> reader = Reader(pem);
  std::vector<OpensslPointer<X509>> all;
  while (X509* const next = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    all.emplace_back(next);
  }
  ERR_clear_error();
  return all;
}

OpensslPointer<X509> CertificateFromPem(std::string_view pem) {
  std::vector<OpensslPointer<X509>> all = CertificatesFromPem(pem);
  return all.empty() ? nullptr : std::move(all.front());
}

OpensslPointer<EVP_PKEY> KeyFromPem(std::string_view pem) {
  OpensslPointer<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

absl::StatusOr<std::string> KeyToPem(EVP_PKEY* key) {
  const OpensslPointer<BIO> out(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return OpensslError("write a private key");
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(bytes));
}

std::string TextOf(const X509_NAME* name) {
  const OpensslPointer<BIO> out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~XN_FLAG_SPC_EQ);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(bytes));
}

}  // namespace mccs
