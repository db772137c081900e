// One rank's end of a communicator: its membership at the daemon, and what a submission needs.
//
//                     Join                reply: joined
//   (made) ──────────► kJoining ─────────────────────────► kReady
//                         │ reply: error                     │ BeginFinalize
//                         ▼                                  ▼
//                      kFailed                           kFinalizing ──reply──► kFinalized
//
// Abort leads from every state to kAborted. An operating error (a peer died, a record was refused)
// does not change the state: it stands in the region, written by the daemon, and sticks.
#ifndef MCCS_SHIM_COMMUNICATOR_H_
#define MCCS_SHIM_COMMUNICATOR_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "proto/unique_id.h"
#include "shim/buffer_export.h"
#include "shim/comm_config.h"
#include "shim/fence.h"
#include "shim/registrations.h"
#include "shim/session.h"
#include "shim/stream_slots.h"
#include "shim/user_operators.h"
#include "shim/work_ring.h"

namespace mccs::shim {

struct JoinOptions {
  wire::UniqueId id;
  int32_t ranks;
  Rank rank;
  DeviceBinding device;
  CommConfig config;
  bool multi_rank_gpu;
  uint32_t init_timeout_ms;
};

// What a submission works with; there from kReady on.
struct SubmitSide {
  SubmitSide(const Session& session, wire::CommRegion& region, BufferExports& exports,
             std::optional<int> only_device)
      : ring(region), buffers(session.driver, exports, only_device) {}

  WorkRing ring;
  StreamSlots slots;
  RecentBuffers buffers;
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

  // Asks the daemon to let go after all posted work; AwaitFinalized blocks until it has.
  // kInvalidArgument when that was asked for before; the communicator's failure where it has one:
  // then there is nothing to flush, and only Abort ends it.
  absl::Status BeginFinalize();
  absl::Status AwaitFinalized();

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
  // Ok when operations can be posted; else why not.
  absl::Status CheckUsable();

  bool blocking() const { return options_.config.blocking; }
  bool launch_blocking() const { return options_.config.launch_blocking; }
  bool finalized_or_finalizing() const;
  int ranks() const { return options_.ranks; }
  int rank() const { return options_.rank.value(); }
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

  // What ncclRedOpCreatePreMulSum, and what the functions of registration made here. THREAD: any.
  UserOperators& operators() { return operators_; }
  Registrations& registrations() { return registrations_; }

 private:
  enum class State { kMade, kJoining, kReady, kFailed, kFinalizing, kFinalized, kAborted };

  State state() const { return state_.load(std::memory_order_acquire); }
  // The daemon's answer to the request that is outstanding. REQUIRES: control_mutex_ held.
  void FinishJoin(absl::StatusOr<Reply> reply);
  absl::Status EnterCommunicator(Reply reply);
  void FinishFinalize(absl::StatusOr<Reply> reply);
  // Takes a step if the answer is there.
  void Progress();
  absl::StatusOr<uint64_t> SendAbort();

  const std::shared_ptr<Session> session_;
  const JoinOptions options_;

  // Release store after everything that the state promises is in place; pairs with state().
  std::atomic<State> state_{State::kMade};
  std::atomic<bool> aborted_{false};  // set by Abort, seen by callers that wait for ring space

  std::mutex control_mutex_;
  uint64_t request_ = 0;  // the one that is outstanding, while joining or finalizing
  absl::Status failure_;  // why kFailed, kAborted

  uint32_t handle_ = 0;              // the daemon's name for us
  std::unique_ptr<FencePage> page_;  // from kReady on

  std::mutex submit_mutex_;
  std::optional<SubmitSide> submit_side_;

  UserOperators operators_;
  Registrations registrations_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_COMMUNICATOR_H_
