// The calls that one look finds waiting because their other end is missing, and the puts that
// processes have not copied. A tenant chooses how many there are, so a look has limits.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_
#define MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_

#include <cstddef>
#include <vector>

#include "service/messages/open_message.h"

namespace mccs {

// LIFETIME: the calls until the next turn.
class WaitingCalls {
 public:
  // Further ones are not found.
  static constexpr size_t kMost = 1024;

  // Counts a pair of ranks at which the look has come. Returns false if it must end.
  bool Look() {
    ++looks_;
    return calls_.size() + puts_.size() < kMost;
  }
  void Add(const OpenMessage& call) { calls_.push_back(call); }
  void Add(const UncopiedPut& put) { puts_.push_back(put); }

  // Of each pair and kind, the oldest call.
  const std::vector<OpenMessage>& calls() const { return calls_; }
  // Of each pair or lane, the oldest part.
  const std::vector<UncopiedPut>& puts() const { return puts_; }
  size_t looks() const { return looks_; }

 private:
  std::vector<OpenMessage> calls_;
  std::vector<UncopiedPut> puts_;
  size_t looks_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_
