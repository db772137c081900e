// ncclGroupStart … ncclGroupEnd: what a thread has asked for and not yet handed over.
//
// State is per thread and nests; the outermost end acts, in this order: all inits together, then
// the work of all communicators together, then the communicators that leave. A call outside any
// group is a group of one. The first error is remembered; with one, the outermost end drops all
// that was queued and returns it. A communicator that was to leave is aborted then: its handle is
// gone, so nobody else could end it.
#ifndef MCCS_SHIM_GROUP_H_
#define MCCS_SHIM_GROUP_H_

#include <nccl.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/handle_table.h"
#include "shim/submit.h"

namespace mccs::shim {

// THREAD: its own.
class Group {
 public:
  // Also in destructors of thread_local objects, of static ones, and in atexit functions.
  static Group& OfThisThread();

  // A thread that ends within a group drops all that is queued.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void Start() { ++depth_; }
  bool open() const { return depth_ > 0; }

  // kFailedPrecondition without a Start. In the result ncclInProgress is told apart from ok by
  // `in_progress`: a non-blocking communicator has begun something.
  struct Outcome {
    absl::Status status;
    bool in_progress = false;
  };
  Outcome End();
  // Ends one level. At the outermost one drops inits and operations, and says how many microseconds
  // the operations would have taken; nothing at an inner one, or where it is not wanted. Errors:
  // what the calls met, or the daemon's. Asks the daemon once for each operation. Communicators
  // that are to leave do leave: their handles are gone.
  absl::StatusOr<std::optional<double>> SimulateEnd(bool wanted);
  // Ends all levels, drops everything, and says how many levels there were.
  int Abandon();

  // A communicator that is to come.
  struct Birth {
    std::unique_ptr<Communicator> comm;
    ncclComm_t* where;         // gets the handle; NULL again where there will be none
    bool blocking;             // the outermost end waits until it is ready
    bool shown_at_once;        // `*where` is set now, else when it is ready (or its join has begun)
    bool outside = false;      // a rank without a color: `*where` stays NULL
    CommRef parent = {};       // whose Abort ends the join too
    bool ends_parent = false;  // NCCL_SHRINK_ABORT
  };

  // Each adds one task; REQUIRES: open(). kInvalidArgument: communicators that are waited for and
  // such that are not cannot be made in one group, as its end either waits or does not.
  absl::Status AddBirth(Birth birth);
  void AddLeaving(CommRef comm);
  absl::Status AddOperation(CommRef comm, CUstream stream, const wire::WorkRecord& record,
                            const StagedSides& staged) {
    return work_.Add(std::move(comm), stream, record, staged);
  }
  void AddError(const absl::Status& status) {
    if (error_.ok()) error_ = status;
  }

 private:
  struct InitJob {
    CommRef comm;
    ncclComm_t handle;
    ncclComm_t* where;
    bool blocking;
    bool outside;
    CommRef parent;
    bool ends_parent;
    // Takes the handle back.
    void Drop();
  };

  Group() = default;

  absl::Status RunInits(bool* in_progress);
  absl::Status Finish(InitJob& job);
  // All leave in any case. The failure that left work of one of them undone.
  absl::Status RunLeaving();
  void Clear();

  int depth_ = 0;
  absl::Status error_;
  std::vector<InitJob> inits_;
  GroupWork work_;
  std::vector<CommRef> leaving_;
};

// Opens a group for one call, so that a call alone and a call within a group go the same way.
//   GroupOfCall group; … group->AddOperation(…); return group.Finish(status);
class GroupOfCall {
 public:
  GroupOfCall() : group_(Group::OfThisThread()) { group_.Start(); }
  Group* operator->() { return &group_; }
  Group* get() { return &group_; }

  // Ends the call's level. `status`: what the call itself found wrong.
  ncclResult_t Finish(const absl::Status& status);

 private:
  Group& group_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_GROUP_H_
