// Encodes a number in an element type: the scale of an average.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_H_

#include <cstdint>

#include "proto/operation.h"

namespace mccs {

// `value` in the low bytes, rounded once to the nearest value of `type`, ties to even.
// REQUIRES: IsFloat(type); 0 < value ≤ 1, and not below what rounds to the smallest subnormal.
uint64_t EncodeScalar(DataType type, double value);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_H_
