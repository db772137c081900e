// What one host has to send to another one: of the messages between them, and of the puts.
#ifndef MCCS_SERVICE_MESSAGES_OUTBOX_H_
#define MCCS_SERVICE_MESSAGES_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "service/messages/message_tag.h"
#include "service/messages/open_message.h"

namespace mccs {

// A call whose payload may go out.
struct Transfer {
  OpenMessage message;
  uint64_t offset = 0;  // bytes handed to the lane
};

struct Outbox {
  std::deque<MessageTag> announcements;  // empty slices: the other host waits for them
  size_t answers = 0;                    // of them, those that the other host has asked for
  std::deque<Transfer> transfers;        // the next one in front
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_OUTBOX_H_
