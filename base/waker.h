// Somebody who takes turns, for those who know when the next one is due: a stream that has become
// ready wakes whoever reads it.
//
// THREAD: the owning engine's.
#ifndef MCCS_BASE_WAKER_H_
#define MCCS_BASE_WAKER_H_

namespace mccs {

class Waker {
 public:
  virtual ~Waker() = default;
  // There is something to look at. Only takes a note of it, at a cost that does not depend on how
  // many there are; twice is as good as once.
  virtual void Wake() = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_WAKER_H_
