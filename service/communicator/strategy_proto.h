// Strategy to and from its message (proto/strategy.proto).
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_PROTO_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_PROTO_H_

#include "absl/status/statusor.h"
#include "service/communicator/strategy.h"

namespace mccs {

namespace strategy {
class Strategy;  // proto/strategy.pb.h
}

void ToProto(const Strategy& value, strategy::Strategy* message);

// The strategy in `message`, fit for a communicator of `hosts` hosts (ValidateStrategy).
// kInvalidArgument otherwise, also for a port that is no port: what comes from outside is checked
// here, once.
absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_PROTO_H_
