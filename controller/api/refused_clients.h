// Clients whose TLS handshake or call the controller has refused: counts them and logs them.
//
// OWNER: main. THREAD: any.
#ifndef MCCS_CONTROLLER_API_REFUSED_CLIENTS_H_
#define MCCS_CONTROLLER_API_REFUSED_CLIENTS_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "trust/peer_certificates.h"

namespace mccs {

using RefusedCounts = std::array<uint64_t, kRefusalReasons>;  // by RefusalReason

class RefusedClients {
 public:
  // Lines per reason and minute.
  static constexpr int kLines = 16;

  // LIFETIME: both outlive it.
  RefusedClients(Log& log, const Clock& clock) : lines_(log, "reason", kLines), clock_(clock) {}

  // A client tries again and again: the log names each certificate once per minute.
  void Add(const RefusedPeer& client);

  RefusedCounts counts() const;

 private:
  mutable std::mutex mutex_;  // guards the following members
  RefusedCounts counts_{};
  LimitedWarnings lines_;  // by reason, since a client may choose the other parts
  // Logged within a minute, by subject or message: when that ends.
  absl::flat_hash_map<std::string, MonotonicNs> recent_;
  const Clock& clock_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_REFUSED_CLIENTS_H_
