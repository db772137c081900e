// A rank with a list of sends, receives and one-sided calls without data.
#ifndef MCCS_TESTS_UNIT_MESSAGES_LISTED_MESSAGES_H_
#define MCCS_TESTS_UNIT_MESSAGES_LISTED_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tests/unit/messages/idle_port.h"

namespace mccs {

class ListedMessages : public IdlePort {
 public:
  absl::StatusOr<const PostedMessage*> TakeMessage() override {
    return taken < calls.size() ? &calls[taken++] : nullptr;
  }
  void CompleteMessage(const PostedMessage&) override { ++complete; }
  bool HasMessages() const override { return complete < calls.size(); }

  // `awaited`: of a kWaitSignal.
  void Post(OpKind kind, int peer, uint64_t awaited = 0) {
    calls.push_back({.kind = kind,
                     .type = DataType::kInt8,
                     .peer = Rank(peer),
                     .memory = {},
                     .awaited = awaited});
  }

  std::deque<PostedMessage> calls;
  size_t taken = 0;
  size_t complete = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_MESSAGES_LISTED_MESSAGES_H_
