// How long a call on a communicator would take, by the cost model and the plans that would be run.
#ifndef MCCS_SERVICE_COMMUNICATOR_ESTIMATE_H_
#define MCCS_SERVICE_COMMUNICATOR_ESTIMATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "algorithms/cost.h"
#include "base/ids.h"
#include "proto/operation.h"
#include "service/communicator/plan_cache.h"

namespace mccs {

// As a tenant says it: any value may stand in any field.
struct EstimatedCall {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  int32_t root_or_peer = 0;
  uint64_t count = 0;
};

// What holds for all calls of the communicator.
struct EstimateGround {
  HostIndex self;
  uint32_t slot_bytes = 0;
  CostParameters parameters;
};

// Microseconds. kInvalidArgument: no such call. May build a plan, as the call itself would.
absl::StatusOr<double> EstimateCallUs(const EstimatedCall& call, PlanCache& plans,
                                      const EstimateGround& ground);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_ESTIMATE_H_
