// Estimates the duration of a call from the cost model and the plans that it would use.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_ESTIMATE_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_ESTIMATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "algorithms/cost.h"
#include "base/ids.h"
#include "proto/operation.h"
#include "service/communicator/strategy/plan_cache.h"

namespace mccs {

// As the tenant passes it: fields are unchecked.
struct EstimatedCall {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  int32_t root_or_peer = 0;
  uint64_t count = 0;
};

// Parameters common to all calls of the communicator.
struct EstimateContext {
  HostIndex self;
  uint32_t slot_bytes = 0;
  CostParameters parameters;
};

// In microseconds. kInvalidArgument: not a valid call. May build a plan, as the call itself would.
absl::StatusOr<double> EstimateCallUs(const EstimatedCall& call, PlanCache& plans,
                                      const EstimateContext& context);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_ESTIMATE_H_
