#include "service/messages/open_message.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

struct Layout32 {
  uint8_t kind;
  uint8_t type;
  uint16_t stripes;
  int32_t source;
  int32_t destination;
  uint32_t signal;
  uint64_t number;
  uint64_t amount;
};
static_assert(sizeof(Layout32) == sizeof(SliceTag));
static_assert(std::is_trivially_copyable_v<Layout32>);

}  // namespace

SliceTag ToTag(const MessageTag& message) {
  return std::bit_cast<SliceTag>(Layout32{.kind = static_cast<uint8_t>(message.kind),
                                          .type = static_cast<uint8_t>(message.type),
                                          .stripes = message.stripes,
                                          .source = message.pair.source.value(),
                                          .destination = message.pair.destination.value(),
                                          .signal = message.signal,
                                          .number = message.number,
                                          .amount = message.amount});
}

MessageTag MessageFromTag(const SliceTag& tag) {
  const auto plain = std::bit_cast<Layout32>(tag);
  return {.kind = static_cast<MessageTag::Kind>(plain.kind),
          .type = static_cast<DataType>(plain.type),
          .stripes = plain.stripes,
          .pair = {.source = Rank(plain.source), .destination = Rank(plain.destination)},
          .signal = plain.signal,
          .number = plain.number,
          .amount = plain.amount};
}

namespace {

std::string DescribeCall(bool sends, const RankPair& pair, uint64_t number, const PeerCall& c) {
  return absl::StrCat(sends ? "send" : "recv", " #", number, " of rank ",
                      sends ? pair.source.value() : pair.destination.value(),
                      sends ? " to rank " : " from rank ",
                      sends ? pair.destination.value() : pair.source.value(), " count ", c.count,
                      " type ", std::string(Name(c.type)));
}

}  // namespace

absl::Status ProtocolError(const MessageTag& tag, std::string_view what) {
  const std::string call = tag.kind >= MessageTag::Kind::kPut
                               ? std::string("put")
                               : absl::StrCat("message #", tag.number);
  return absl::DataLossError(absl::StrCat(call, " of rank ", tag.pair.source.value(), " to rank ",
                                          tag.pair.destination.value(), ": ", std::string(what),
                                          "; run the same release of mccsd on all hosts"));
}

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
  const auto found = std::ranges::lower_bound(counts, peer, {}, &MessageCount::peer);
  return found == counts.end() || found->peer != peer ? nullptr : &*found;
}

std::span<const RankPair> PairsOf(const absl::flat_hash_map<Rank, std::vector<RankPair>>& index,
                                  Rank rank) {
  const auto found = index.find(rank);
  return found == index.end() ? std::span<const RankPair>() : found->second;
}

}  // namespace mccs
