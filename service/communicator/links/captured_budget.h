// A turn's budget for the captured groups of a communicator's ranks, in looks at a word that a
// stream writes. A tenant chooses how many groups and calls there are.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_CAPTURED_BUDGET_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_CAPTURED_BUDGET_H_

#include <algorithm>
#include <cstddef>

namespace mccs {

class CapturedBudget {
 public:
  explicit CapturedBudget(size_t looks) : left_(looks) {}

  size_t left() const { return left_; }
  void SpendLooks(size_t looks) { left_ -= std::min(left_, looks); }
  // The buffers of a call are found and held.
  void SpendCall() { SpendLooks(16); }
  // A message is freed.
  void SpendMessage() { SpendLooks(4); }
  // A piece of memory with the buffers of so many calls is freed.
  void SpendPiece(size_t calls = 0) { SpendLooks(32 + 2 * calls); }

 private:
  size_t left_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_CAPTURED_BUDGET_H_
