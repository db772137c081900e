#include "service/messages/message_tag.h"

#include <bit>
#include <type_traits>

namespace mccs {
namespace {

struct Layout32 {
  uint8_t kind;
  uint8_t type;
  uint16_t reserved0;
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
                                          .reserved0 = 0,
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
          .pair = {.source = Rank(plain.source), .destination = Rank(plain.destination)},
          .signal = plain.signal,
          .number = plain.number,
          .amount = plain.amount};
}

}  // namespace mccs
