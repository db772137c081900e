#include "trust/tls_watch.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<std::unique_ptr<TlsWatch>> TlsWatch::Start(const TlsFiles& files,
                                                          const WallClock& clock,
                                                          const Options& options, Use use) {
  std::unique_ptr<TlsWatch> watch(new TlsWatch(files, clock, options, std::move(use)));
  MCCS_RETURN_IF_ERROR(watch->UseNewFiles());
  watch->thread_ = std::thread([&watch = *watch] { watch.RunLoop(); });
  return watch;
}

TlsWatch::~TlsWatch() {
  {
    const std::lock_guard lock(stop_mutex_);
    stops_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status TlsWatch::UseNewFiles() {
  MCCS_ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsTexts(files_));
  if (texts == used_) return absl::OkStatus();
  MCCS_ASSIGN_OR_RETURN(const CertificateFacts own,
                        CheckTlsTexts(files_, texts, clock_.Now() / kNsPerSec));
  if (identity_.has_value() && own.identity != *identity_) {
    return absl::PermissionDeniedError(
        absl::StrCat(files_.certificate, " is now the certificate of ", ToString(own.identity),
                     ", and this is ", ToString(*identity_)));
  }
  MCCS_RETURN_IF_ERROR(use_(texts, own));
  used_ = std::move(texts);
  const bool is_first = !std::exchange(identity_, own.identity).has_value();
  if (!is_first && options_.log != nullptr) {
    options_.log->Info("new connections use the certificate of '", own.subject, "', valid until ",
                       FormatTime(own.validity.to_s));
  }
  return absl::OkStatus();
}

void TlsWatch::Refresh() {
  const std::lock_guard lock(refresh_mutex_);
  const std::string failure(UseNewFiles().message());
  if (std::exchange(failure_, failure) == failure || failure.empty()) return;
  if (options_.log != nullptr) {
    options_.log->Warning(
        "the files of `tls` have changed and cannot be used, so the ones before stay: ", failure);
  }
}

void TlsWatch::RunLoop() {
  std::unique_lock lock(stop_mutex_);
  const std::chrono::nanoseconds interval(options_.refresh_ns);
  while (!stop_.wait_for(lock, interval, [this] { return stops_; })) {
    lock.unlock();
    Refresh();
    lock.lock();
  }
}

}  // namespace mccs
