#include "trust/peer_certificates.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "trust/certificate.h"
#include "trust/files.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

// Limit of a name in a message: a peer may choose it freely.
constexpr size_t kLongestName = 160;

constexpr char kRemedy[] = "issue one with mccs-controller issue-certificate";

struct VerifyDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(STACK_OF(X509) * chain) const { sk_X509_pop_free(chain, X509_free); }
};
template <typename T>
using VerifyPointer = std::unique_ptr<T, VerifyDeleter>;

// TextOf escapes everything that is not printable ASCII.
std::string ShortText(const X509_NAME* name) {
  std::string text = TextOf(name);
  if (text.size() > kLongestName) text = absl::StrCat(text.substr(0, kLongestName), "...");
  return text;
}

// As of TLS contexts of this system, whose configuration may raise it.
int SecurityLevel() {
  const VerifyPointer<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
  constexpr int kStrictest = 5;
  return context == nullptr ? kStrictest : SSL_CTX_get_security_level(context.get());
}

// Null: the file has no certificates.
std::shared_ptr<X509_STORE> StoreOf(std::string_view pem) {
  const std::vector<OpensslPointer<X509>> authorities = CertificatesFromPem(pem);
  if (authorities.empty()) return nullptr;
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  if (store == nullptr) return nullptr;
  for (const auto& authority : authorities) {
    if (X509_STORE_add_cert(store.get(), authority.get()) != 1) return nullptr;
  }
  // As gRPC: an authority of the file may itself be issued by another one.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  return store;
}

RefusalReason ReasonOf(int error) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return RefusalReason::kExpired;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return RefusalReason::kForeign;
    default:
      return RefusalReason::kOther;
  }
}

// `failed`: the peer's own certificate, or one between it and the authority.
std::string ExpiredText(const X509* failed, int64_t now_s) {
  const absl::StatusOr<Validity> validity = ValidityOf(failed);
  const bool early = validity.ok() && now_s < validity->from_s;
  return absl::StrCat(
      "the certificate of '", ShortText(X509_get_subject_name(failed)),
      early ? "' is valid only from " : "' expired at ",
      validity.ok() ? FormatTime(early ? validity->from_s : validity->to_s) : "an unknown time",
      "; the clock here says ", FormatTime(now_s),
      early ? ": correct the clocks of both machines, or "
            : ": a valid certificate of this cluster's authority is needed; ",
      kRemedy);
}

RefusedPeer Refused(X509_STORE_CTX* context, const X509* certificate, const std::string& path,
                    PeerCertificates::Peers peers, int64_t now_s) {
  const bool of_client = peers == PeerCertificates::Peers::kClients;
  const int error = X509_STORE_CTX_get_error(context);
  RefusedPeer refused{.reason = ReasonOf(error),
                      .subject = ShortText(X509_get_subject_name(certificate)),
                      .message = ""};
  const char* const why = X509_verify_cert_error_string(error);
  switch (refused.reason) {
    case RefusalReason::kExpired: {
      const X509* const failed = X509_STORE_CTX_get_current_cert(context);
      refused.message = ExpiredText(failed != nullptr ? failed : certificate, now_s);
      break;
    }
    case RefusalReason::kForeign:
      refused.message = absl::StrCat(
          "the certificate of '", refused.subject, "', issued by '",
          ShortText(X509_get_issuer_name(certificate)), "', is not one of the authority in ", path,
          " (", why, "): ",
          of_client ? "a certificate of this cluster's authority is needed; "
                    : "it is another cluster's, or the files here are older than the authority; ",
          kRemedy);
      break;
    default:
      refused.message =
          absl::StrCat("the certificate of '", refused.subject, "' is not usable for a ",
                       of_client ? "client (" : "server (", why, "): one of the authority in ",
                       path, " is needed; ", kRemedy);
  }
  return refused;
}

RefusedPeer Unverified(const std::string& why) {
  return {.reason = RefusalReason::kOther, .subject = "", .message = why};
}

// Null: out of memory.
VerifyPointer<STACK_OF(X509)> StackOf(std::string_view pem) {
  VerifyPointer<STACK_OF(X509)> stack(sk_X509_new_null());
  for (OpensslPointer<X509>& each : CertificatesFromPem(pem)) {
    if (stack == nullptr || sk_X509_push(stack.get(), each.get()) == 0) return nullptr;
    (void)each.release();  // The stack owns it.
  }
  return stack;
}

}  // namespace

const char* RefusalName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kExpired:
      return "expired";
    case RefusalReason::kForeign:
      return "foreign";
    case RefusalReason::kMissing:
      return "missing";
    case RefusalReason::kUnauthorized:
      return "unauthorized";
    case RefusalReason::kOther:
      return "other";
  }
  return "other";
}

RefusedPeer WithoutCertificate() {
  return {.reason = RefusalReason::kMissing,
          .subject = "",
          .message = absl::StrCat("it has no certificate: one of this cluster's authority is "
                                  "needed, by `tls` in mccsd's configuration or --tls DIR of "
                                  "mccsctl; ",
                                  kRemedy)};
}

PeerCertificates::PeerCertificates(std::string authority, Peers peers)
    : path_(std::move(authority)), peers_(peers) {
  rules_.security_level = SecurityLevel();
}

PeerCertificates::Rules PeerCertificates::Current() {
  const absl::StatusOr<std::string> pem = ReadTextFile("the certificate authority", path_);
  const std::lock_guard lock(mutex_);
  if (pem.ok() && *pem != pem_) {
    if (std::shared_ptr<X509_STORE> authorities = StoreOf(*pem)) {
      pem_ = *pem;
      rules_.authorities = std::move(authorities);
    }
  }
  return rules_;
}

std::optional<RefusedPeer> PeerCertificates::Check(std::string_view certificate_pem,
                                                   std::string_view between_pem, int64_t now_s) {
  const Rules rules = Current();
  if (certificate_pem.empty()) return WithoutCertificate();
  if (rules.authorities == nullptr)
    return Unverified(absl::StrCat("cannot read certificates of the authority in ", path_));
  const OpensslPointer<X509> certificate = CertificateFromPem(certificate_pem);
  const VerifyPointer<STACK_OF(X509)> between = StackOf(between_pem);
  const VerifyPointer<X509_STORE_CTX> context(X509_STORE_CTX_new());
  if (certificate == nullptr || between == nullptr || context == nullptr ||
      X509_STORE_CTX_init(context.get(), rules.authorities.get(), certificate.get(),
                          between.get()) != 1 ||
      X509_STORE_CTX_set_default(context.get(),
                                 peers_ == Peers::kClients ? "ssl_client" : "ssl_server") != 1) {
    ERR_clear_error();
    return Unverified("cannot verify the certificate: OpenSSL cannot read it");
  }
  X509_VERIFY_PARAM* const rule = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_auth_level(rule, rules.security_level);
  X509_VERIFY_PARAM_set_time(rule, static_cast<time_t>(now_s));
  const bool accepted = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (accepted) return std::nullopt;
  return Refused(context.get(), certificate.get(), path_, peers_, now_s);
}

}  // namespace mccs
