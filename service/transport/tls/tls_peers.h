// TLS between the daemons of a cluster, with certificates that may be renewed meanwhile.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_
#define MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/transport/peer_security.h"
#include "service/transport/tls/handshake_thread.h"
#include "trust/tls_context.h"
#include "trust/tls_files.h"

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

  // Errors as of MakeTlsContext. LIFETIME: clock and log outlive this, and this its connections.
  static absl::StatusOr<std::unique_ptr<TlsPeers>> Make(const TlsFiles& files,
                                                        const WallClock& clock, Log& log,
                                                        const Options& options);
  ~TlsPeers() override;

  bool secures_lanes() const override { return options_.secures_lanes; }

  // THREAD: the owning engine.
  bool Poll() override { return handshakes_ != nullptr && handshakes_->Poll(); }
  std::unique_ptr<SecureConnection> Secure(std::unique_ptr<Connection> connection,
                                           End end) override;

  // Reads the files again if they have changed; connections from now on use them. If they cannot
  // be used, the ones before stay, and the log says so once. THREAD: any.
  void Refresh();
  // THREAD: any.
  CertificateFacts own() const;

 private:
  TlsPeers(TlsFiles files, const WallClock& clock, Log& log, const Options& options)
      : files_(files), options_(options), clock_(clock), log_(log) {}
  void RunLoop();

  const TlsFiles files_;
  const Options options_;
  const WallClock& clock_;
  Log& log_;
  mutable std::mutex mutex_;
  TlsContext context_;      // guarded by mutex_, like the next ones
  size_t fingerprint_ = 0;  // of the files
  std::string failure_;     // of the last reading, as it was logged
  bool stops_ = false;
  std::condition_variable stop_;
  std::thread thread_;
  std::unique_ptr<HandshakeThread> handshakes_;  // null: there is no thread for them
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_TLS_PEERS_H_
