// The joins of communicators that are derived from one. Its Abort also ends them, and its
// AsyncResult includes those that no call waits for.
//
// THREAD: any.
#ifndef MCCS_SHIM_SUBMIT_CHILD_JOINS_H_
#define MCCS_SHIM_SUBMIT_CHILD_JOINS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace mccs::shim {

class Communicator;

// Between a parent and a child, because either may be destroyed first.
class ChildLink {
 public:
  explicit ChildLink(Communicator* child) : child_(child) {}
  // The child is being destroyed.
  void Clear();
  // Whether the child exists and has not joined; processes a pending reply to it.
  bool StillJoins();

 private:
  std::mutex mutex_;  // taken before the child's own
  Communicator* child_;
};

class ChildJoins {
 public:
  // From now on Abort also ends the join of `child`, whose handle the program does not have yet.
  // REQUIRES: End follows.
  void Begin(Communicator* child);
  void End(Communicator* child);
  // A child whose join no call waits for and whose handle the program has.
  void Track(std::shared_ptr<ChildLink> link);
  // Whether a tracked child has not joined yet. One load if there are none.
  bool AnyTrackedJoins();
  // Ends the joins, also those that begin later.
  void Abort();

 private:
  std::mutex mutex_;  // taken before ChildLink's
  bool aborted_ = false;
  std::vector<Communicator*> children_;
  std::vector<std::shared_ptr<ChildLink>> tracked_;
  std::atomic<bool> has_tracked_{false};
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_CHILD_JOINS_H_
