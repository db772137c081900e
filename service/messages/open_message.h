// One send, receive or one-sided call of a local rank, from its call to its completion.
#ifndef MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_
#define MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/communicator/links/rank_port.h"
#include "service/messages/message_tag.h"

namespace mccs {

struct OpenMessage {
  const PostedMessage* call = nullptr;
  MessagePort* port = nullptr;  // of the calling rank
  RankPair pair;
  uint64_t number = 0;  // within its pair, among the calls of its kind

  uint64_t bytes() const { return call->bytes(); }
  std::byte* address() const { return call->address; }
  // The calling rank, and the other one.
  bool by_source() const {
    return call->kind != OpKind::kRecv && call->kind != OpKind::kWaitSignal;
  }
  Rank caller() const { return by_source() ? pair.source : pair.destination; }
  Rank other() const { return by_source() ? pair.destination : pair.source; }
};

// The other end's call, as known here.
struct PeerCall {
  DataType type = DataType::kInt8;
  uint64_t count = 0;
};

// "send #3 of rank 0 to rank 2 count 1024 type float32", "signal #1 of rank 0 to rank 2".
std::string Describe(const OpenMessage& message);

// OK if a matched send and receive have the same number of bytes; types may differ, as in NCCL.
// Else kFailedPrecondition with both calls. `ours`: either end.
absl::Status CheckMatch(const OpenMessage& ours, const PeerCall& theirs);

// Calls that one rank has posted so far with `peer` at the other end.
struct MessageCount {
  Rank peer;
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t signals = 0;  // including those of puts
};

// The entry of `peer`; null if there is none.
const MessageCount* CountWith(Rank peer, const std::vector<MessageCount>& counts);

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_OPEN_MESSAGE_H_
