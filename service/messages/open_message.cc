#include "service/messages/open_message.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

std::string DescribeCall(bool sends, const RankPair& pair, uint64_t number, const PeerCall& c) {
  return absl::StrCat(sends ? "send" : "recv", " #", number, " of rank ",
                      sends ? pair.source.value() : pair.destination.value(),
                      sends ? " to rank " : " from rank ",
                      sends ? pair.destination.value() : pair.source.value(), " count ", c.count,
                      " type ", std::string(Name(c.type)));
}

}  // namespace

std::string Describe(const OpenMessage& message) {
  const PostedMessage& call = *message.call;
  const std::string between =
      absl::StrCat(" #", message.number, " of rank ", message.caller().value(), " to rank ",
                   message.other().value());
  if (call.kind == OpKind::kSignal) return absl::StrCat("signal", between);
  if (call.kind == OpKind::kPut) {
    return absl::StrCat("put", between, " count ", call.count, " type ",
                        std::string(Name(call.type)));
  }
  if (call.kind == OpKind::kWaitSignal) {
    return absl::StrCat("wait #", message.number, " of rank ", message.caller().value(), " for ",
                        call.awaited, " signals of rank ", message.other().value());
  }
  return DescribeCall(message.call->kind == OpKind::kSend, message.pair, message.number,
                      {.type = message.call->type, .count = message.call->count});
}

absl::Status CheckMatch(const OpenMessage& ours, const PeerCall& theirs) {
  if (ours.bytes() == theirs.count * SizeOf(theirs.type)) return absl::OkStatus();
  const bool we_send = ours.call->kind == OpKind::kSend;
  return absl::FailedPreconditionError(
      absl::StrCat("mismatched send and recv: ", Describe(ours), ", ",
                   DescribeCall(!we_send, ours.pair, ours.number, theirs)));
}

const MessageCount* CountWith(Rank peer, const std::vector<MessageCount>& counts) {
  const auto found = std::find_if(counts.begin(), counts.end(),
                                  [&](const MessageCount& count) { return count.peer == peer; });
  return found == counts.end() ? nullptr : &*found;
}

}  // namespace mccs
