// Blocks all signals in the calling thread while the object exists. A thread that is started
// meanwhile blocks them until it ends: signals are for the threads that expect them.
//
// THREAD: the same for constructor and destructor.
#ifndef MCCS_BASE_BLOCKED_SIGNALS_H_
#define MCCS_BASE_BLOCKED_SIGNALS_H_

#include <csignal>

namespace mccs {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace mccs

#endif  // MCCS_BASE_BLOCKED_SIGNALS_H_
