#include "service/transport/tls/tls_peers.h"

#include <utility>

#include "base/status_macros.h"
#include "service/transport/tls/tls_connection.h"

namespace mccs {

absl::StatusOr<std::unique_ptr<TlsPeers>> TlsPeers::Make(const TlsFiles& files,
                                                         const WallClock& clock, Log& log,
                                                         const Options& options) {
  std::unique_ptr<TlsPeers> peers(new TlsPeers(options));
  MCCS_ASSIGN_OR_RETURN(
      peers->watch_,
      TlsWatch::Start(files, clock, {.log = &log, .refresh_ns = options.refresh_ns},
                      [&peers = *peers](const TlsTexts& texts, const CertificateFacts& own) {
                        return peers.Use(texts, own);
                      }));
  if (options.wake != nullptr) peers->handshakes_ = std::make_unique<HandshakeThread>(options.wake);
  return peers;
}

absl::Status TlsPeers::Use(const TlsTexts& texts, const CertificateFacts& own) {
  MCCS_ASSIGN_OR_RETURN(TlsContext context, MakeTlsContext(texts, own));
  const std::lock_guard lock(mutex_);
  context_ = std::move(context);
  return absl::OkStatus();
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

}  // namespace mccs
