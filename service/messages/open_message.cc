#include "service/messages/open_message.h"

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

std::string DescribeCall(bool sends, const RankPair& pair, uint64_t number, const CounterCall& c) {
  return absl::StrCat(sends ? "send" : "recv", " #", number, " of rank ",
                      sends ? pair.source.value() : pair.destination.value(),
                      sends ? " to rank " : " from rank ",
                      sends ? pair.destination.value() : pair.source.value(), " count ", c.count,
                      " type ", std::string(Name(c.type)));
}

}  // namespace

std::string Describe(const OpenMessage& message) {
  return DescribeCall(message.call->kind == OpKind::kSend, message.pair, message.number,
                      {.type = message.call->type, .count = message.call->count});
}

absl::Status CheckFit(const OpenMessage& ours, const CounterCall& theirs) {
  if (ours.bytes() == theirs.count * SizeOf(theirs.type)) return absl::OkStatus();
  const bool we_send = ours.call->kind == OpKind::kSend;
  return absl::FailedPreconditionError(
      absl::StrCat("calls do not fit together: ", Describe(ours), ", ",
                   DescribeCall(!we_send, ours.pair, ours.number, theirs)));
}

}  // namespace mccs
