#include "service/transport/tls/tls_peers.h"

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/transport/tls/tls_connection.h"
#include "trust/files.h"

namespace mccs {
namespace {

// Of the files that can be read; one that cannot is an error of MakeTlsContext.
size_t FingerprintOf(const TlsFiles& files) {
  std::string all;
  for (const std::string* path : {&files.authority, &files.certificate, &files.key}) {
    absl::StrAppend(&all, ReadTextFile("a file of `tls`", *path).value_or(""), "\n");
  }
  return std::hash<std::string>()(all);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsPeers>> TlsPeers::Make(const TlsFiles& files,
                                                         const WallClock& clock, Log& log,
                                                         const Options& options) {
  std::unique_ptr<TlsPeers> peers(new TlsPeers(files, clock, log, options));
  peers->fingerprint_ = FingerprintOf(files);
  MCCS_ASSIGN_OR_RETURN(peers->context_, MakeTlsContext(files, clock.Now() / kNsPerSec));
  if (options.wake != nullptr) peers->handshakes_ = std::make_unique<HandshakeThread>(options.wake);
  peers->thread_ = std::thread([&peers = *peers] { peers.RunLoop(); });
  return peers;
}

TlsPeers::~TlsPeers() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<SecureConnection> TlsPeers::Secure(std::unique_ptr<Connection> connection,
                                                   End end) {
  const std::lock_guard lock(mutex_);
  return std::make_unique<TlsConnection>(std::move(connection), context_, end, handshakes_.get());
}

CertificateFacts TlsPeers::own() const {
  const std::lock_guard lock(mutex_);
  return context_.own;
}

void TlsPeers::Refresh() {
  const size_t fingerprint = FingerprintOf(files_);
  {
    const std::lock_guard lock(mutex_);
    if (fingerprint == fingerprint_) return;
  }
  absl::StatusOr<TlsContext> context = MakeTlsContext(files_, clock_.Now() / kNsPerSec);
  if (context.ok() && context->own.identity != own().identity) {
    context = absl::PermissionDeniedError(
        absl::StrCat(files_.certificate, " is now the certificate of ",
                     ToString(context->own.identity), ", and this is ", ToString(own().identity)));
  }
  const std::lock_guard lock(mutex_);
  if (!context.ok()) {
    const std::string failure(context.status().message());
    if (std::exchange(failure_, failure) != failure) {
      log_.Warning("the files of `tls` have changed and cannot be used, so the ones before stay: ",
                   failure);
    }
    return;
  }
  context_ = *std::move(context);
  fingerprint_ = fingerprint;
  failure_.clear();
  log_.Info("peers now see the certificate of '", context_.own.subject, "', valid until ",
            FormatTime(context_.own.validity.to_s));
}

void TlsPeers::RunLoop() {
  std::unique_lock lock(mutex_);
  const std::chrono::nanoseconds interval(options_.refresh_ns);
  while (!stop_.wait_for(lock, interval, [this] { return stops_; })) {
    lock.unlock();
    Refresh();
    lock.lock();
  }
}

}  // namespace mccs
