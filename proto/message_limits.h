// How large a gRPC message may be that comes in: larger ones end their call or stream with
// RESOURCE_EXHAUSTED. gRPC's own limit, 4 MiB, is less than what goes about here.
#ifndef MCCS_PROTO_MESSAGE_LIMITS_H_
#define MCCS_PROTO_MESSAGE_LIMITS_H_

namespace mccs {

// Between a daemon and the controller, either way, and of what operators ask. A registration has
// all communicators that its host leads: of 1000 ranks on 125 hosts, with 8 channels, one is some
// 80 KiB. The controller tells daemons of all Tenants in one message.
inline constexpr int kMaxMessageBytes = 64 << 20;

// Of what mccsctl is answered: 10,000 objects with their documents, or as many entries of the audit
// log.
inline constexpr int kMaxAnswerBytes = 512 << 20;

}  // namespace mccs

#endif  // MCCS_PROTO_MESSAGE_LIMITS_H_
