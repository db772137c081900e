// The properties of one operation that must be equal on all ranks. It is the tag of every slice, so
// mismatched collectives are detected before a byte is reduced, without a round trip.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_OPERATION_SIGNATURE_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_OPERATION_SIGNATURE_H_

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "service/communicator/links/rank_port.h"
#include "service/transport/lane.h"

namespace mccs {

//   0        8        16     20     21     22      23        24       32
//   | number | count  | root | kind | type | redop | 0       | 0      |
struct OperationSignature {
  uint64_t number = 0;  // in the communicator, from 1
  uint64_t count = 0;
  int32_t root = 0;
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  ReduceOp redop = ReduceOp::kSum;
  uint8_t reserved0 = 0;
  uint64_t reserved1 = 0;
  friend bool operator==(const OperationSignature&, const OperationSignature&) = default;
};
static_assert(sizeof(OperationSignature) == sizeof(SliceTag));

OperationSignature SignatureOf(const PostedOperation& operation, uint64_t number);
SliceTag ToTag(const OperationSignature& signature);
OperationSignature FromTag(const SliceTag& tag);

// "all_gather #17 count 1024 type float32"
std::string Describe(const OperationSignature& signature);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_OPERATION_SIGNATURE_H_
