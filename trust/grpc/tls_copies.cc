#include "trust/grpc/tls_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/sealed_file.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

std::string PathOf(const UniqueFd& fd) { return absl::StrCat("/proc/self/fd/", fd.get()); }

// `to` keeps its descriptor, if it has one.
absl::Status Replace(UniqueFd& to, const std::string& name, const std::string& text) {
  MCCS_ASSIGN_OR_RETURN(UniqueFd file, MakeSealedFile(name, std::as_bytes(std::span(text))));
  if (!to.valid()) {
    to = std::move(file);
    return absl::OkStatus();
  }
  while (dup3(file.get(), to.get(), O_CLOEXEC) < 0) {
    if (errno != EINTR && errno != EBUSY)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot replace ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCopies>> TlsCopies::Make(const TlsFiles& files,
                                                           const WallClock& clock,
                                                           const TlsWatch::Options& options) {
  std::unique_ptr<TlsCopies> copies(new TlsCopies());
  MCCS_ASSIGN_OR_RETURN(
      copies->watch_,
      TlsWatch::Start(files, clock, options,
                      [&copies = *copies](const TlsTexts& texts, const CertificateFacts& /*own*/) {
                        return copies.Use(texts);
                      }));
  return copies;
}

std::string TlsCopies::certificate() const { return PathOf(certificate_); }
std::string TlsCopies::key() const { return PathOf(key_); }

// gRPC may read between the two. It reads both again if the time of one has changed meanwhile.
absl::Status TlsCopies::Use(const TlsTexts& texts) {
  MCCS_RETURN_IF_ERROR(Replace(certificate_, "mccs-certificate", texts.certificate));
  return Replace(key_, "mccs-key", texts.key);
}

}  // namespace mccs
