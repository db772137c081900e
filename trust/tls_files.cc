#include "trust/tls_files.h"

#include <openssl/x509_vfy.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/files.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

struct StoreDeleter {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(STACK_OF(X509) * chain) const { sk_X509_pop_free(chain, X509_free); }
};

absl::StatusOr<std::vector<OpensslPointer<X509>>> ReadAll(const std::string& path,
                                                          const std::string& pem) {
  std::vector<OpensslPointer<X509>> all = CertificatesFromPem(pem);
  if (all.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": there is no certificate in PEM (BEGIN CERTIFICATE)"));
  }
  return all;
}

// The reason why no authority has issued the first of `chain`; empty: one has.
std::string WhyNotIssued(const std::vector<OpensslPointer<X509>>& authorities,
                         const std::vector<OpensslPointer<X509>>& chain, int64_t now_s) {
  const std::unique_ptr<X509_STORE, StoreDeleter> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  const std::unique_ptr<STACK_OF(X509), StoreDeleter> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    X509_up_ref(chain[i].get());
    sk_X509_push(between.get(), chain[i].get());
  }
  const std::unique_ptr<X509_STORE_CTX, StoreDeleter> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between.get());
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(now_s));
  if (X509_verify_cert(context.get()) == 1) return "";
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsTexts(const TlsFiles& files) {
  TlsTexts texts;
  MCCS_ASSIGN_OR_RETURN(texts.authority,
                        ReadTextFile("the certificate authority", files.authority));
  MCCS_ASSIGN_OR_RETURN(texts.certificate, ReadTextFile("the certificate", files.certificate));
  MCCS_ASSIGN_OR_RETURN(texts.key, ReadTextFile("the private key", files.key));
  return texts;
}

absl::StatusOr<CertificateFacts> CheckTlsTexts(const TlsFiles& files, const TlsTexts& texts,
                                               int64_t now_s) {
  MCCS_ASSIGN_OR_RETURN(const auto authorities, ReadAll(files.authority, texts.authority));
  MCCS_ASSIGN_OR_RETURN(const auto chain, ReadAll(files.certificate, texts.certificate));
  const OpensslPointer<EVP_PKEY> key = KeyFromPem(texts.key);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.key, ": there is no private key without passphrase in PEM"));
  }
  absl::StatusOr<CertificateFacts> facts = FactsOf(chain.front().get());
  if (!facts.ok()) return InFile(files.certificate, facts.status());
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(files.key, " is not the key of the certificate ",
                                                   files.certificate, " of '", facts->subject,
                                                   "'"));
  }
  if (const absl::Status time = CheckTime(*facts, now_s); !time.ok())
    return InFile(files.certificate, time);
  if (const std::string why = WhyNotIssued(authorities, chain, now_s); !why.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.certificate, ": the certificate of '", facts->subject, "', issued by '",
                     facts->issuer, "', is not one of the authority in ", files.authority, ": ",
                     why, "; use the authority's file that came with the certificate"));
  }
  return facts;
}

absl::StatusOr<CertificateFacts> CheckTlsFiles(const TlsFiles& files, int64_t now_s) {
  MCCS_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsTexts(files));
  return CheckTlsTexts(files, texts, now_s);
}

absl::Status CheckKind(const CertificateFacts& facts, Identity::Kind needed,
                       const std::string& program) {
  if (facts.identity.kind == needed) return absl::OkStatus();
  const Identity example{.domain = facts.identity.domain,
                         .kind = needed,
                         .name = needed == Identity::Kind::kController ? "" : "NAME"};
  return absl::PermissionDeniedError(absl::StrCat("the certificate of '", facts.subject,
                                                  "' is that of ", Describe(facts.identity), ": ",
                                                  program, " needs one of ", ToString(example)));
}

}  // namespace mccs
