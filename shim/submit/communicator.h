// One rank's membership in a communicator: its state at the daemon, and the objects that submission
// uses.
//
//                     Join                reply: joined
//   (made) ──────────► kJoining ─────────────────────────► kReady
//                       │    │ reply: error                  │ BeginFinalize
//            no color ◄─┘    ▼                               ▼
//           kNoColor      kFailed                        kFinalizing ──reply──► kFinalized
//
// Abort leads from every state to kAborted. An operating error (a peer died, a record was rejected)
// does not change the state: the daemon writes it into the region, where it stays. The streams of a
// failed communicator stay blocked until Abort, Revoke, EndForShrink or ReleaseStreams.
#ifndef MCCS_SHIM_SUBMIT_COMMUNICATOR_H_
#define MCCS_SHIM_SUBMIT_COMMUNICATOR_H_

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
#include "shim/buffers/buffer_export.h"
#include "shim/buffers/registrations.h"
#include "shim/config/comm_config.h"
#include "shim/cuda/side_stream.h"
#include "shim/daemon/fence.h"
#include "shim/daemon/work_ring.h"
#include "shim/submit/captured_work.h"
#include "shim/submit/child_joins.h"
#include "shim/submit/joined_rank.h"
#include "shim/submit/session.h"
#include "shim/submit/staging.h"
#include "shim/submit/stream_slots.h"
#include "shim/submit/user_operators.h"

namespace mccs::shim {

// The request by which a rank joins a communicator.
using JoinMessage = std::variant<wire::CommInit, wire::CommSplit, wire::CommShrink, wire::CommGrow>;

struct JoinOptions {
  std::vector<wire::CommShrink> before;  // earlier parts of a list that exceeds one message
  JoinMessage message;
  int32_t ranks = 0;  // 0, with rank -1: taken from the daemon's reply
  Rank rank = Rank(-1);
  DeviceBinding device;
  CommConfig config;
};

// The state of submission; exists from kReady on.
struct SubmissionState {
  SubmissionState(const std::shared_ptr<Session>& session, uint32_t comm_handle,
                  wire::CommRegion& region, const DeviceBinding& device, std::mutex& submit_lock,
                  std::optional<int> only_device)
      : ring(region),
        buffers(session->driver, session->buffers, only_device),
        unposted(session->buffers.leases(), submit_lock),
        staging(session->staging, device),
        captures(session, comm_handle),
        side(session->driver, device.context) {}

  WorkRing ring;
  StreamSlots slots;
  RecentBuffers buffers;
  UnpostedCalls unposted;
  StagingMemory staging;
  // The key of the last group's stream; none: it had several.
  std::optional<uint64_t> last_stream;
  Captures captures;
  SideStream side;
};

class Communicator {
 public:
  Communicator(std::shared_ptr<Session> session, JoinOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // ---- Life. THREAD: any ----

  // Sends the request to join; returns before the other ranks have joined.
  absl::Status Join();
  // Blocks until all ranks have joined, the join failed, or Abort.
  absl::Status AwaitJoined();
  // As in ChildJoins. Until a tracked child has joined, AsyncResult of this communicator is
  // ncclInProgress too, because PyTorch polls the parent.
  void BeginChildJoin(Communicator* child) { child_joins_.Begin(child); }
  void EndChildJoin(Communicator* child) { child_joins_.End(child); }
  void TrackChildJoin(Communicator* child);
  // Whether its join is in progress; processes a pending reply.
  bool StillJoins();

  // Asks the daemon to release the communicator after all posted work; AwaitFinalized blocks until
  // then. kInvalidArgument when called before; the communicator's failure if that left work of this
  // rank incomplete: then there is nothing to flush, and only Abort ends it.
  absl::Status BeginFinalize();
  absl::Status AwaitFinalized();
  // The failure that left posted or replayed work of this rank incomplete, unless the program ended
  // the communicator. REQUIRES: nothing is posted meanwhile.
  absl::Status IncompleteWork() const;

  // Ends the work of all ranks and releases their streams. Afterwards operations return
  // kFailedPrecondition; other communicators can still be derived from this one. Returns when Abort
  // would. Errors: kInvalidArgument if there is no work to end.
  absl::Status Revoke();
  // The same for a parent that is shrunk with NCCL_SHRINK_ABORT. REQUIRES: the shrink request, by
  // which the daemon ends the work, was sent.
  void EndForShrink();

  // Releases all streams and later replays of graphs. For an end that waited for posted work
  // (AwaitFinalized): work that failed meanwhile will not complete.
  void ReleaseStreams();

  // Until Resume, operations return kFailedPrecondition. Frees staging memory that no work uses.
  // Once all ranks of a host are suspended, the daemon frees its memory for the lanes. Operations
  // allocate both again. kInvalidArgument when already suspended (or resumed). After an error the
  // communicator is unchanged.
  absl::Status Suspend();
  absl::Status Resume();
  // Bytes of the tenant's GPU memory that this communicator uses for staging now.
  uint64_t StagingBytes();

  // Ends all work and releases all streams and waiting callers. Returns after the daemon's last
  // access to the tenant's memory, or after wire::kAbortTimeout if the daemon is stuck.
  void Abort();

  // The GPU or its context has failed, as `text` says: the communicator accepts no more calls, and
  // the daemon fails it on all ranks. Has an effect once, and only before the end. THREAD: any.
  void ReportGpuFailure(std::string_view text);
  // The same if work of a posted call could not be enqueued, but other kernels of the rank may run.
  // A GPU that fails later is reported, too.
  struct UnlaunchedKernel {
    uint32_t slot;        // ready slot
    uint64_t first_call;  // sequence of the first call whose commands it was to take
  };
  void ReportLaunchFailure(std::string_view text, const std::optional<UnlaunchedKernel>& kernel);
  // "GPU 0000:81:00.0 (CUDA device 1) has failed: …", the text for ReportGpuFailure.
  std::string DescribeGpuFailure(const absl::Status& error) const;

  // ---- Queries. THREAD: any ----

  // The result of ncclCommGetAsyncError. One load when the communicator works; also processes a
  // pending reply of the daemon.
  ncclResult_t AsyncResult();
  // The error of AsyncResult; ok if there is none.
  absl::Status Failure();
  // The same for the first call that finds it, then ok. Always ok if the program itself ended the
  // communicator.
  absl::Status TakeFailure();
  // Ok when operations can be posted; else the reason.
  absl::Status CheckUsable();
  // Ok when other communicators can be derived from this one. `failed_too`: also if its work
  // failed.
  absl::Status CheckParent(bool failed_too);

  bool blocking() const { return options_.config.blocking; }
  bool launch_blocking() const { return options_.config.launch_blocking; }
  const CommConfig& config() const { return options_.config; }
  bool finalized_or_finalizing() const;
  // True for a rank without a color in its split.
  bool has_no_color() const { return state() == State::kNoColor; }
  // 0 and -1 until the daemon's reply.
  int ranks() const { return ranks_.load(std::memory_order_relaxed); }
  int rank() const { return rank_.load(std::memory_order_relaxed); }
  // Whether a message to or from this rank, or a put into its window, uses host memory: no
  // kernel of this rank can copy between the two ranks' buffers. REQUIRES: the communicator is
  // ready.
  bool StagesMessagesWith(int peer) const;
  const DeviceBinding& binding() const { return options_.device; }
  const std::shared_ptr<Session>& session() const { return session_; }
  // The daemons' id of the communicator and this daemon's handle. REQUIRES: CheckParent was ok.
  uint64_t id() const { return joined_->id; }
  uint32_t handle() const { return joined_->handle; }
  bool suspended() const { return suspended_.load(); }
  int device() const { return options_.device.ordinal; }
  CUcontext context() const { return options_.device.context; }
  const DriverApi& driver() const { return session_->driver; }

  // ---- Submission. REQUIRES: CheckUsable() was ok; submit_mutex() held ----

  std::mutex& submit_mutex() { return submit_mutex_; }
  SubmissionState& submission_state() { return *submission_state_; }
  const FencePage& page() const { return *page_; }
  // How streams that run no calls wait for them.
  const StreamWait& stream_wait() const { return session_->WaitFor(joined_->role); }
  bool stages_collectives() const { return joined_->stages_collectives; }
  // No records are taken any more: stop waiting for space.
  bool broken() const;
  void NotifyDaemon() { session_->client->Notify(handle()); }

  // The daemon's estimate for this call, in microseconds. REQUIRES: CheckUsable() was ok.
  // THREAD: any.
  absl::StatusOr<double> EstimateUs(const wire::WorkRecord& call);

  // Objects of ncclRedOpCreatePreMulSum and of the registration functions. THREAD: any.
  UserOperators& operators() { return operators_; }
  Registrations& registrations() { return registrations_; }

 private:
  // `message` lacks handle and text. `reported`: the flag of this kind of report.
  void ReportFailure(std::string_view text, wire::GpuFailed message, bool& reported);

  enum class State {
    kCreated,
    kJoining,
    kReady,
    kNoColor,
    kFailed,
    kFinalizing,
    kFinalized,
    kAborted
  };

  State state() const { return state_.load(std::memory_order_acquire); }
  // Process the daemon's reply to the outstanding request. REQUIRES: control_mutex_ held.
  void FinishJoin(absl::StatusOr<Reply> reply);
  absl::StatusOr<State> EnterCommunicator(Reply reply);
  void LogStaging(const wire::CommInitReply& joined) const;
  // Returns CommInit::probe_buffer.
  uint32_t PrepareForKernels() const;
  absl::StatusOr<uint64_t> SendJoin(uint32_t probe) const;
  void ReturnStaging();
  void TrimStaging();
  void FinishFinalize(absl::StatusOr<Reply> reply);
  // Whether other ranks' failures ended the communicator after all work of this rank was complete.
  // REQUIRES: nothing is posted meanwhile.
  bool FailedAfterOwnWork() const;
  // Waits until the daemon uses no memory for the work that was ended on purpose, then releases the
  // streams.
  void AwaitWorkEnded(const char* text);
  // Processes the outstanding reply if it has arrived.
  void Progress();
  absl::StatusOr<uint64_t> SendAbort();
  absl::StatusOr<uint64_t> SendSuspended(bool suspended);
  absl::Status SetSuspended(bool suspended);
  // Why the communicator accepts no requests now; ok in kReady.
  absl::Status CheckReady();

  const std::shared_ptr<Session> session_;
  const JoinOptions options_;

  // Release store after everything that the state guarantees; pairs with state().
  std::atomic<State> state_{State::kCreated};
  std::atomic<int32_t> ranks_;  // set before kReady
  std::atomic<int32_t> rank_;
  std::atomic<bool> aborted_{false};  // set by Abort, read by callers that wait for ring space

  std::mutex abort_mutex_;  // taken before the other mutexes; only the first Abort acts
  std::mutex control_mutex_;
  uint64_t request_ = 0;       // the outstanding request, while joining or finalizing
  uint64_t join_request_ = 0;  // the daemon's key of this communicator during the session
  absl::Status failure_;       // the reason of kFailed and kAborted
  // To the daemon. Guarded by control_mutex_.
  bool gpu_failure_reported_ = false;
  bool launch_failure_reported_ = false;

  std::atomic<bool> failure_taken_{false};
  std::atomic<const char*> end_message_{
      nullptr};  // the error message for work that was ended on purpose
  std::atomic<bool> suspended_{false};
  std::atomic<bool> released_{false};  // by Abort: the daemon does not access our memory any more

  std::optional<JoinedRank> joined_;  // from the daemon's reply on, if the rank has a color
  std::unique_ptr<FencePage> page_;   // from kReady on

  ChildJoins child_joins_;
  std::shared_ptr<ChildLink> link_to_parent_;  // null: not tracked

  std::mutex submit_mutex_;
  std::optional<SubmissionState> submission_state_;

  UserOperators operators_;
  Registrations registrations_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_COMMUNICATOR_H_
