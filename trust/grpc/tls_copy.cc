#include "trust/grpc/tls_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/sealed_file.h"
#include "base/status_macros.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace {

constexpr char kName[] = "mccs-certificate-and-key";

absl::Status SetTime(int fd, int64_t seconds) {
  const timespec time{.tv_sec = static_cast<time_t>(seconds), .tv_nsec = 0};
  const timespec times[] = {time, time};  // of the last access and of the last change
  if (futimens(fd, times) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot set the time of ", kName));
}

// `to` keeps its descriptor, if it has one.
absl::Status Replace(UniqueFd& to, UniqueFd file) {
  if (!to.valid()) {
    to = std::move(file);
    return absl::OkStatus();
  }
  while (dup3(file.get(), to.get(), O_CLOEXEC) < 0) {
    if (errno != EINTR && errno != EBUSY)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot replace ", kName));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCopy>> TlsCopy::Make(const TlsFiles& files,
                                                       const WallClock& clock,
                                                       const TlsWatch::Options& options) {
  std::unique_ptr<TlsCopy> copy(new TlsCopy());
  MCCS_ASSIGN_OR_RETURN(
      copy->watch_,
      TlsWatch::Start(files, clock, options,
                      [&copy = *copy](const TlsTexts& texts, const CertificateFacts& /*own*/) {
                        return copy.Use(texts);
                      }));
  return copy;
}

std::string TlsCopy::path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

absl::Status TlsCopy::Use(const TlsTexts& texts) {
  // Either file may have what belongs into the other one. gRPC takes the first key, and would send
  // the certificates of both.
  MCCS_ASSIGN_OR_RETURN(const std::string key, KeyToPem(KeyFromPem(texts.key).get()));
  const std::string text = absl::StrCat(key, texts.certificate);
  MCCS_ASSIGN_OR_RETURN(UniqueFd file, MakeSealedFile(kName, std::as_bytes(std::span(text))));
  MCCS_RETURN_IF_ERROR(SetTime(file.get(), ++version_));  // 0 would be an error for gRPC
  return Replace(file_, std::move(file));
}

}  // namespace mccs
