#include "trust/grpc/silent_log.h"

#include <grpc/support/log.h>

#include <cstdlib>

namespace mccs {

void SilenceGrpcLog() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace mccs
