// TLS between the daemons of a cluster, with certificates that may be renewed meanwhile.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/transport/peer_security.h"
#include "service/transport/tls/handshake_thread.h"
#include "trust/tls_context.h"
#include "trust/tls_files.h"
#include "trust/tls_watch.h"

namespace mccs {

class TlsPeers final : public PeerSecurity {
 public:
  struct Options {
    bool secures_lanes = false;
    // Ends the engine's sleep when a part of a handshake is computed. THREAD of wake: any; it does
    // not block. Null: Read and Write compute handshakes, so that a simulation has one thread.
    std::function<void()> wake = nullptr;
    int64_t refresh_ns = 5 * kNsPerSec;  // from one Refresh to the next, by a thread
  };

  // Errors as of TlsWatch and MakeTlsContext. LIFETIME: clock and log outlive this, and this its
  // connections.
  static absl::StatusOr<std::unique_ptr<TlsPeers>> Make(const TlsFiles& files,
                                                        const WallClock& clock, Log& log,
                                                        const Options& options);

  bool secures_lanes() const override { return options_.secures_lanes; }

  // THREAD: the owning engine.
  bool Poll() override { return handshakes_ != nullptr && handshakes_->Poll(); }
  std::unique_ptr<SecureConnection> Secure(std::unique_ptr<Connection> connection,
                                           End end) override;

  // Connections from now on use new files (TlsWatch). THREAD: any.
  void Refresh() { watch_->Refresh(); }
  // THREAD: any.
  CertificateFacts own() const;

 private:
  explicit TlsPeers(const Options& options) : options_(options) {}
  absl::Status Use(const TlsTexts& texts, const CertificateFacts& own);

  const Options options_;
  mutable std::mutex mutex_;
  TlsContext context_;                           // guarded by mutex_
  std::unique_ptr<HandshakeThread> handshakes_;  // null: there is no thread for them
  std::unique_ptr<TlsWatch> watch_;              // ends first: it calls Use
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_
