// Handshakes that gRPC refuses before it verifies a certificate: a client without a certificate or
// without TLS, or one that does not trust the server. gRPC reports them only in its log, which this
// takes instead of stderr.
//
// OWNER: main, at most one at a time: gRPC has one log function per process.
#ifndef MCCS_TRUST_GRPC_FAILED_HANDSHAKES_H_
#define MCCS_TRUST_GRPC_FAILED_HANDSHAKES_H_

#include <grpc/support/log.h>

#include <optional>
#include <string_view>

#include "trust/grpc/credentials.h"

namespace mccs {

// The client in a line of gRPC's log; nothing: the line is about something else. Pure.
std::optional<RefusedPeer> RefusedPeerIn(std::string_view line);

class FailedHandshakes {
 public:
  // `print`: also prints all lines on stderr. LIFETIME: the process has no other servers or clients
  // of gRPC whose handshakes fail; what on_refused uses outlives this.
  FailedHandshakes(OnRefusedClient on_refused, bool print);
  // REQUIRES: the server has ended.
  ~FailedHandshakes();
  FailedHandshakes(const FailedHandshakes&) = delete;
  FailedHandshakes& operator=(const FailedHandshakes&) = delete;

 private:
  void Write(const gpr_log_func_args* line) const;

  const OnRefusedClient on_refused_;
  const bool print_;
};

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_FAILED_HANDSHAKES_H_
