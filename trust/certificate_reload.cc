#include "trust/certificate_reload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/identity.h"

namespace mccs {

CertificateReload::CertificateReload(TlsFiles files, const WallClock* clock)
    : files_(std::move(files)), clock_(clock) {
  (void)Check();  // for the end of the certificate
}

absl::StatusOr<std::optional<std::string>> CertificateReload::Check() {
  if (files_.empty()) return std::nullopt;
  const int64_t before_s = std::exchange(end_s_, 0);
  MCCS_ASSIGN_OR_RETURN(const CertificateFacts facts,
                        CheckTlsFiles(files_, clock_->Now() / kNsPerSec));
  end_s_ = facts.validity.to_s;
  if (end_s_ == before_s) return std::nullopt;
  return absl::StrCat("certificate of ", Describe(facts.identity), " until ", FormatTime(end_s_));
}

}  // namespace mccs
