// ncclGroupStart … ncclGroupEnd: a thread's queued calls.
//
// State is per thread and nests. The outermost end first runs all inits together, then submits the
// work of all communicators together, then runs the communicators' destruction. A call without
// an open group is a group of one call. The first error is kept: with it, the outermost end drops
// everything queued and returns the error. It aborts communicators that were to be destroyed,
// because their handles are invalid, so the program could not end them.
#ifndef MCCS_SHIM_PROCESS_GROUP_H_
#define MCCS_SHIM_PROCESS_GROUP_H_

#include <nccl.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/submit/handle_table.h"
#include "shim/submit/submit.h"

namespace mccs::shim {

// THREAD: owned by its thread.
class Group {
 public:
  // Usable also in destructors of thread_local and static objects, and in atexit functions.
  static Group& OfThisThread();

  // A thread that ends within a group drops everything queued.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void Start() { ++depth_; }
  bool open() const { return depth_ > 0; }

  // kFailedPrecondition without a Start. `in_progress` distinguishes ncclInProgress from ok: a
  // non-blocking communicator has begun to join.
  struct Outcome {
    absl::Status status;
    bool in_progress = false;
  };
  Outcome End();
  // Ends one level. At the outermost one drops inits and operations, and returns the estimated time
  // of the operations in microseconds; nothing at an inner level, or if not `wanted`. Errors: those
  // of the calls, or the daemon's. Sends one request to the daemon per operation. Communicators
  // that were to be destroyed are destroyed, because their handles are invalid.
  absl::StatusOr<std::optional<double>> SimulateEnd(bool wanted);
  // Ends all levels, drops everything, and returns the number of levels.
  int Abandon();

  // A communicator whose init is queued.
  struct PendingInit {
    std::unique_ptr<Communicator> comm;
    ncclComm_t* where;          // gets the handle; NULL if the init fails
    bool blocking;              // the outermost end waits until it is ready
    bool expose_at_once;        // `*where` is set now, else when ready (or when its join begins)
    bool has_no_color = false;  // a rank without a color: `*where` stays NULL
    CommRef parent = {};        // its Abort also ends the join
    bool ends_parent = false;   // NCCL_SHRINK_ABORT
  };

  // Each adds one task; REQUIRES: open(). kInvalidArgument: a group cannot contain both blocking
  // and non-blocking inits, because its end either waits or does not.
  absl::Status AddPendingInit(PendingInit init);
  void AddDestroy(CommRef comm);
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
    bool has_no_color;
    CommRef parent;
    bool ends_parent;
    // Resets the caller's handle.
    void Drop();
  };

  Group() = default;

  absl::Status RunInits(bool* in_progress);
  absl::Status Finish(InitJob& job);
  // All are ended in any case. Returns the failure that left work of one of them incomplete.
  absl::Status RunDestroys();
  void Clear();

  int depth_ = 0;
  absl::Status error_;
  std::vector<InitJob> inits_;
  GroupWork work_;
  std::vector<CommRef> destroys_;
};

// Opens a group for one call, so that single calls and calls within a group use the same code.
//   ImplicitGroup group; … group->AddOperation(…); return group.Finish(status);
class ImplicitGroup {
 public:
  ImplicitGroup() : group_(Group::OfThisThread()) { group_.Start(); }
  Group* operator->() { return &group_; }
  Group* get() { return &group_; }

  // Ends the call's level. `status`: the call's own error.
  ncclResult_t Finish(const absl::Status& status);

 private:
  Group& group_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_PROCESS_GROUP_H_
