// An object that runs when it is woken. A stream that becomes ready wakes its reader.
//
// THREAD: the owning engine's.
#ifndef MCCS_BASE_WAKER_H_
#define MCCS_BASE_WAKER_H_

namespace mccs {

class Waker {
 public:
  virtual ~Waker() = default;
  // Records that there is work. Constant cost; repeated calls have no further effect.
  virtual void Wake() = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_WAKER_H_
