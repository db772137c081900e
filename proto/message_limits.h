// Size limits of messages. A larger incoming gRPC message ends its call or stream with
// RESOURCE_EXHAUSTED. gRPC's default limit, 4 MiB, is too small.
#ifndef MCCS_PROTO_MESSAGE_LIMITS_H_
#define MCCS_PROTO_MESSAGE_LIMITS_H_

#include <cstddef>

namespace mccs {

// Between a daemon and the controller, in both directions, and of operators' requests. A
// registration contains all communicators that its host leads: one of 1000 ranks on 125 hosts, with
// 8 channels, takes about 80 KiB. The controller sends all Tenants in one message.
inline constexpr int kMaxMessageBytes = 64 << 20;

// Of the texts of all files in an operator's request.
inline constexpr size_t kMaxObjectTextBytes = 3 << 20;

// Of replies to mccsctl: 10,000 objects with their documents, or as many entries of the audit log.
inline constexpr int kMaxReplyBytes = 512 << 20;

}  // namespace mccs

#endif  // MCCS_PROTO_MESSAGE_LIMITS_H_
