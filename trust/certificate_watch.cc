#include "trust/certificate_watch.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "trust/certificate.h"
#include "trust/files.h"

namespace mccs {
namespace {

int64_t ReadEndS(const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadTextFile("the certificate", path);
  if (!pem.ok()) return 0;
  const absl::StatusOr<CertificateFacts> facts = ParseCertificate(*pem);
  return facts.ok() ? facts->validity.to_s : 0;
}

}  // namespace

int64_t CertificateWatch::EndS() {
  const std::lock_guard lock(mutex_);
  const MonotonicNs now = clock_->Now();
  if (now >= next_read_) {
    end_s_ = ReadEndS(path_);
    next_read_ = now + kReadEveryNs;
  }
  return end_s_;
}

std::string CertificateProblem(int64_t end_s, int64_t now_s) {
  const int64_t left_s = end_s - now_s;
  if (end_s == 0 || left_s >= kRenewBeforeEndS) return "";
  if (left_s < 0) return absl::StrCat("certificate ended ", FormatAge(-left_s * kNsPerSec), " ago");
  return absl::StrCat("certificate ends in ", FormatAge(left_s * kNsPerSec));
}

}  // namespace mccs
