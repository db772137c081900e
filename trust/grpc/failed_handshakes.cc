#include "trust/grpc/failed_handshakes.h"

#include <grpc/support/log.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

// gRPC 1.51, ssl_handshaker_do_handshake: "Handshake failed with fatal error SSL_ERROR_SSL:
// error:0A0000C7:SSL routines::peer did not return a certificate."
constexpr std::string_view kFailed = "Handshake failed with fatal error ";

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

RefusedPeer Refused(RefusalReason reason, std::string message) {
  return {.reason = reason, .subject = "", .message = std::move(message)};
}

// gRPC's log function gets no argument of its own. The log function's load pairs with the stores.
std::atomic<const FailedHandshakes*> current = nullptr;

}  // namespace

std::optional<RefusedPeer> RefusedPeerIn(std::string_view line) {
  if (!line.starts_with(kFailed)) return std::nullopt;
  std::string_view why = line.substr(kFailed.size());
  if (const size_t routine = why.rfind("::"); routine != why.npos) why.remove_prefix(routine + 2);
  if (why.ends_with('.')) why.remove_suffix(1);
  if (Has(why, "peer did not return a certificate")) return WithoutCertificate();
  // The errors of OpenSSL for bytes that are not TLS.
  if (Has(why, "wrong version number") || Has(why, "http request")) {
    return Refused(
        RefusalReason::kMissing,
        "it does not use TLS: a certificate of this cluster's authority is needed, by `tls` in "
        "mccsd's configuration or --tls DIR of mccsctl");
  }
  if (Has(why, "no shared cipher")) {
    return Refused(
        RefusalReason::kOther,
        "it offers no TLS 1.3, which is needed: use an OpenSSL of version 1.1.1 or later, and "
        "programs of this release");
  }
  if (Has(why, "alert unknown ca")) {
    return Refused(
        RefusalReason::kForeign,
        "it does not trust this controller's authority: its files are of another cluster, or older "
        "than the authority; issue them with mccs-controller issue-certificate");
  }
  return Refused(RefusalReason::kOther,
                 absl::StrCat("the TLS handshake failed (", std::string(why),
                              "): mutual TLS with certificates of one authority is needed; check "
                              "the client's and this controller's files of `tls`"));
}

FailedHandshakes::FailedHandshakes(OnRefusedClient on_refused, bool print)
    : on_refused_(std::move(on_refused)), print_(print) {
  MCCS_CHECK(current.exchange(this, std::memory_order_acq_rel) == nullptr);
  gpr_set_log_function([](gpr_log_func_args* line) {
    if (const FailedHandshakes* const to = current.load(std::memory_order_acquire)) to->Write(line);
  });
}

FailedHandshakes::~FailedHandshakes() { current.store(nullptr, std::memory_order_release); }

void FailedHandshakes::Write(const gpr_log_func_args* line) const {
  if (print_) std::fprintf(stderr, "%s:%d: %s\n", line->file, line->line, line->message);
  if (const std::optional<RefusedPeer> refused = RefusedPeerIn(line->message))
    on_refused_(*refused);
}

}  // namespace mccs
