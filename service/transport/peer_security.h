// Proofs by daemons that they are of one cluster, and of which host. Implemented by TLS
// (tls/tls_peers.h). Without it, any program with a communicator's secret is a peer.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_PEER_SECURITY_H_
#define MCCS_SERVICE_TRANSPORT_PEER_SECURITY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "service/transport/network.h"

namespace mccs {

// A connection whose bytes only its two ends can read or change. Its first calls of Read and Write
// make the handshake; until it is complete they would block. A Write that took only a part of its
// bytes must be repeated with the rest, or with the beginning of the rest. Besides kUnavailable,
// kUnauthenticated: the other end is no daemon of the cluster, or does not take this one for one;
// names the certificate.
class SecureConnection : public Connection {
 public:
  // The other end's host; empty until it is proven. The first byte that is read comes later.
  virtual const std::string& peer_host() const = 0;
  virtual bool handshaking() const = 0;
};

class PeerSecurity {
 public:
  enum class End : uint8_t { kClient, kServer };

  virtual ~PeerSecurity() = default;
  // This host's lanes are secure connections, too: it opens and accepts no others.
  virtual bool secures_lanes() const { return false; }
  // Delivers what is computed apart from the engine, and wakes its connections. Returns true if there
  // was something.
  virtual bool Poll() { return false; }
  // Takes an open connection, or one that is being opened, at its current byte.
  virtual std::unique_ptr<SecureConnection> Secure(std::unique_ptr<Connection> connection,
                                                   End end) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_PEER_SECURITY_H_
