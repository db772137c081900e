// Queued slices from one host to another: for the messages between them, and for puts.
#ifndef MCCS_SERVICE_MESSAGES_OUTBOX_H_
#define MCCS_SERVICE_MESSAGES_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "service/messages/message_tag.h"
#include "service/messages/open_message.h"

namespace mccs {

// A call whose payload may be sent.
struct Transfer {
  OpenMessage message;
  uint64_t offset = 0;  // bytes posted to the lane
};

struct Outbox {
  std::deque<MessageTag> announcements;  // empty slices, which the other host waits for
  size_t window_replies = 0;  // number of announcements that answer a request of the other host
  std::deque<Transfer> transfers;  // the next one in front
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_OUTBOX_H_
