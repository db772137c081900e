// gRPC's own log, on stderr, is for its developers: our programs get errors as statuses, and log
// them themselves.
#ifndef MCCS_TRUST_GRPC_SILENT_LOG_H_
#define MCCS_TRUST_GRPC_SILENT_LOG_H_

namespace mccs {

// Drops gRPC's lines from now on, unless GRPC_VERBOSITY is set in the environment.
// THREAD: main, before the process uses gRPC.
void SilenceGrpcLog();

}  // namespace mccs

#endif  // MCCS_TRUST_GRPC_SILENT_LOG_H_
