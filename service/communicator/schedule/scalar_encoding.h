// Encodes the scale with which an average of floating types multiplies each input.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_ENCODING_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_ENCODING_H_

#include <cstdint>

#include "proto/operation.h"

namespace mccs {

// The scale of an average: `value` in the low bytes, rounded once to the nearest value of `type`,
// ties to even. REQUIRES: IsFloat(type); 0 < value ≤ 1, and not below what rounds to the smallest
// subnormal.
uint64_t EncodeScalar(DataType type, double value);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_SCALAR_ENCODING_H_
