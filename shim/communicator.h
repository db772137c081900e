// One rank's end of a communicator: its membership at the daemon, and what a submission needs.
//
//                     Join                reply: joined
//   (made) ──────────► kJoining ─────────────────────────► kReady
//                       │    │ reply: error                  │ BeginFinalize
//            no color ◄─┘    ▼                               ▼
//           kOutside      kFailed                        kFinalizing ──reply──► kFinalized
//
// Abort leads from every state to kAborted. An operating error (a peer died, a record was refused)
// does not change the state: the daemon writes it into the region, and it sticks. The streams of a
// communicator that failed stay blocked until Abort, Revoke, EndForShrink or ReleaseStreams.
#ifndef MCCS_SHIM_COMMUNICATOR_H_
#define MCCS_SHIM_COMMUNICATOR_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "proto/shim_control.h"
#include "shim/buffer_export.h"
#include "shim/captured_work.h"
#include "shim/comm_config.h"
#include "shim/fence.h"
#include "shim/registrations.h"
#include "shim/session.h"
#include "shim/staging.h"
#include "shim/stream_slots.h"
#include "shim/user_operators.h"
#include "shim/work_ring.h"

namespace mccs::shim {

// How a rank asks its daemon for a communicator.
using JoinMessage = std::variant<wire::CommInit, wire::CommSplit, wire::CommShrink, wire::CommGrow>;

struct JoinOptions {
  std::vector<wire::CommShrink> before;  // parts of a list too long for one message
  JoinMessage message;
  int32_t ranks = 0;  // 0, rank -1: the daemon's answer tells
  Rank rank = Rank(-1);
  DeviceBinding device;
  CommConfig config;
};

// What a submission works with; there from kReady on.
struct SubmitSide {
  SubmitSide(const std::shared_ptr<Session>& session, uint32_t comm_handle,
             wire::CommRegion& region, const DeviceBinding& device, std::mutex& submit_lock,
             std::optional<int> only_device)
      : ring(region),
        buffers(session->driver, session->buffers, only_device),
        unposted(session->buffers.leases(), submit_lock),
        staging(session->staging, device),
        captures(session, comm_handle) {}

  WorkRing ring;
  StreamSlots slots;
  RecentBuffers buffers;
  UnpostedCalls unposted;
  StagingMemory staging;
  Captures captures;
};

class Communicator {
 public:
  Communicator(std::shared_ptr<Session> session, JoinOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // ---- Life. THREAD: any ----

  // Sends the request to join; other ranks may be joined meanwhile.
  absl::Status Join();
  // Blocks until all ranks have joined, or it failed, or Abort.
  absl::Status AwaitJoined();
  // From then on Abort ends the join of `child` too: nobody has its handle yet. REQUIRES:
  // ChildJoined follows.
  void ChildJoins(Communicator* child);
  void ChildJoined(Communicator* child);
  // A child that nobody waits for, and whose handle is out: until it has joined, AsyncResult is in
  // progress here too, which is where PyTorch looks.
  void ChildBegins(Communicator* child);

  // Asks the daemon to let go after all posted work; AwaitFinalized blocks until it has.
  // kInvalidArgument when that was asked for before; the communicator's failure where that left
  // work of this rank undone: then there is nothing to flush, and only Abort ends it.
  absl::Status BeginFinalize();
  absl::Status AwaitFinalized();
  // The failure that left posted or replayed work of this rank undone, where the program has not
  // ended the communicator. REQUIRES: nothing is posted meanwhile.
  absl::Status UndoneWork() const;

  // Ends the work of all ranks and releases their streams; from then on operations are
  // kFailedPrecondition, and other communicators can still be made of this one. Returns as Abort
  // does. Errors: kInvalidArgument where there is no work to end.
  absl::Status Revoke();
  // The same for a parent that is shrunk with NCCL_SHRINK_ABORT. REQUIRES: the request to shrink
  // was sent, by which the daemon ends the work.
  void EndForShrink();

  // Releases all streams and later replays of graphs. For an end that waited for posted work
  // (AwaitFinalized): what failed meanwhile will not be done.
  void ReleaseStreams();

  // Operations are kFailedPrecondition until Resume. Staging memory that no work uses any more is
  // freed, and so is, once all ranks of a host have called it, what the daemon there holds for the
  // lanes; operations take both anew. kInvalidArgument when that is so already. After an error the
  // communicator is as it was before.
  absl::Status Suspend();
  absl::Status Resume();
  // Bytes of the tenant's GPU memory that stage buffers of this communicator now.
  uint64_t StagingBytes();

  // Ends whatever is going on and releases all streams and callers that wait. Returns after the
  // daemon's last access to the tenant's memory, or after kAbortTime when the daemon is stuck.
  static constexpr std::chrono::seconds kAbortTime{2};
  void Abort();

  // ---- Questions. THREAD: any ----

  // What ncclCommGetAsyncError answers. One load when the communicator works; takes a step when an
  // answer of the daemon is outstanding.
  ncclResult_t AsyncResult();
  // The error behind AsyncResult, ok if there is none.
  absl::Status Failure();
  // The same at the first call that finds one, then ok; and ok where the program itself ended it.
  absl::Status TakeFailure();
  // Ok when operations can be posted; else why not.
  absl::Status CheckUsable();
  // Ok when other communicators can be made of this one. `failed_too`: although its work failed.
  absl::Status CheckParent(bool failed_too);

  bool blocking() const { return options_.config.blocking; }
  bool launch_blocking() const { return options_.config.launch_blocking; }
  const CommConfig& config() const { return options_.config; }
  bool finalized_or_finalizing() const;
  // A rank that has no color in the split that it asked for.
  bool outside() const { return state() == State::kOutside; }
  // 0 and -1 as long as only the daemon knows.
  int ranks() const { return ranks_.load(std::memory_order_relaxed); }
  int rank() const { return rank_.load(std::memory_order_relaxed); }
  const DeviceBinding& binding() const { return options_.device; }
  const std::shared_ptr<Session>& session() const { return session_; }
  // The daemons' name for the communicator and this daemon's for us. REQUIRES: CheckParent was ok.
  uint64_t id() const { return id_; }
  uint32_t handle() const { return handle_; }
  bool suspended() const { return suspended_.load(); }
  int device() const { return options_.device.ordinal; }
  CUcontext context() const { return options_.device.context; }
  const DriverApi& driver() const { return session_->driver; }

  // ---- Submission. REQUIRES: CheckUsable() was ok; submit_mutex() held ----

  std::mutex& submit_mutex() { return submit_mutex_; }
  SubmitSide& submit_side() { return *submit_side_; }
  const FencePage& page() const { return *page_; }
  // Nobody takes records any more: stop waiting for space.
  bool broken() const;
  void NotifyDaemon() { session_->client->Notify(handle_); }

  // Microseconds that this call would take, as the daemon estimates it. REQUIRES: CheckUsable() was
  // ok. THREAD: any.
  absl::StatusOr<double> EstimateUs(const wire::WorkRecord& call);

  // What ncclRedOpCreatePreMulSum, and what the functions of registration made here. THREAD: any.
  UserOperators& operators() { return operators_; }
  Registrations& registrations() { return registrations_; }

 private:
  enum class State {
    kMade,
    kJoining,
    kReady,
    kOutside,
    kFailed,
    kFinalizing,
    kFinalized,
    kAborted
  };

  State state() const { return state_.load(std::memory_order_acquire); }
  // The daemon's answer to the request that is outstanding. REQUIRES: control_mutex_ held.
  void FinishJoin(absl::StatusOr<Reply> reply);
  absl::StatusOr<State> EnterCommunicator(Reply reply);
  void AbortChildren();
  bool ChildrenJoin();
  void GiveBackStaging();
  void TrimStaging();
  void FinishFinalize(absl::StatusOr<Reply> reply);
  // The communicator has failed, by other ranks' doing, when all that this one had posted was done.
  // REQUIRES: nothing is posted meanwhile.
  bool FailedAfterItsWork() const;
  // Waits until the daemon uses no memory for the work that was ended on purpose, and releases the
  // streams.
  void AwaitWorkEnded(const char* text);
  // Takes a step if the answer is there.
  void Progress();
  absl::StatusOr<uint64_t> SendAbort();
  absl::StatusOr<uint64_t> SendSuspended(bool suspended);
  absl::Status TellSuspended(bool suspended);
  // Why nothing can be asked of the communicator now; ok in kReady.
  absl::Status CheckReady();

  const std::shared_ptr<Session> session_;
  const JoinOptions options_;

  // Release store after everything that the state promises is in place; pairs with state().
  std::atomic<State> state_{State::kMade};
  std::atomic<int32_t> ranks_;  // before kReady in place
  std::atomic<int32_t> rank_;
  std::atomic<bool> aborted_{false};  // set by Abort, seen by callers that wait for ring space

  std::mutex abort_mutex_;  // before its other ones; one Abort acts, the next finds it done
  std::mutex control_mutex_;
  uint64_t request_ = 0;       // the one that is outstanding, while joining or finalizing
  uint64_t join_request_ = 0;  // names this communicator to the daemon as long as the session lives
  absl::Status failure_;       // why kFailed, kAborted

  std::atomic<bool> failure_taken_{false};
  std::atomic<const char*> ended_{nullptr};  // what is said of work that was ended on purpose
  std::atomic<bool> suspended_{false};
  std::atomic<bool> let_go_{false};  // by Abort: the daemon touches our memory no more

  uint64_t id_ = 0;
  uint32_t handle_ = 0;              // the daemon's name for us
  std::unique_ptr<FencePage> page_;  // from kReady on

  // Shared by parent and child, as either may be destroyed first.
  struct ChildLink {
    std::mutex mutex;
    Communicator* child;  // null when it is gone
  };

  std::mutex children_mutex_;  // before ChildLink::mutex, and both before control_mutex_
  std::vector<Communicator*> joining_children_;
  std::vector<std::shared_ptr<ChildLink>> begun_children_;
  std::atomic<bool> children_begun_{false};  // whether to look into begun_children_
  std::shared_ptr<ChildLink> link_to_parent_;

  std::mutex submit_mutex_;
  std::optional<SubmitSide> submit_side_;

  UserOperators operators_;
  Registrations registrations_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_COMMUNICATOR_H_
