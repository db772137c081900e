// Converts Strategy to and from its message (proto/strategy.proto).
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_PROTO_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_PROTO_H_

#include "absl/status/statusor.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

namespace strategy {
class Strategy;  // proto/strategy.pb.h
}

void ToProto(const Strategy& value, strategy::Strategy* message);

// Converts and validates the strategy in `message` for `hosts` hosts (ValidateStrategy).
// kInvalidArgument if it is invalid, including source ports out of range.
absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_STRATEGY_PROTO_H_
