// Certificates of simulated hosts, without cryptography: each end of a connection sends a
// certificate, which is the authority's number and the host's name, and then all bytes unchanged.
// A program without a SimSecurity of the authority does not know its number.
//
//   client: Certificate ──►
//                       ◄── Certificate: server, once it has accepted the client's
//   bytes ◄─►
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_SIM_SECURITY_H_
#define MCCS_TESTS_SIM_SIM_SECURITY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "service/transport/peer_security.h"

namespace mccs {

class SimSecurity final : public PeerSecurity {
 public:
  // `host`: as the certificate names it; at most 255 bytes.
  SimSecurity(uint64_t authority, std::string host)
      : authority_(authority), host_(std::move(host)) {}

  std::unique_ptr<SecureConnection> Secure(std::unique_ptr<Connection> connection,
                                           End end) override;

 private:
  const uint64_t authority_;
  const std::string host_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_SECURITY_H_
