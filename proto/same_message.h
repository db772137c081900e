// Compares protobuf messages.
#ifndef MCCS_PROTO_SAME_MESSAGE_H_
#define MCCS_PROTO_SAME_MESSAGE_H_

#include <google/protobuf/message_lite.h>

namespace mccs {

// Whether two messages of one type are equal. REQUIRES: no map fields, so that equal messages have
// equal bytes.
inline bool IsSameMessage(const google::protobuf::MessageLite& a,
                          const google::protobuf::MessageLite& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace mccs

#endif  // MCCS_PROTO_SAME_MESSAGE_H_
