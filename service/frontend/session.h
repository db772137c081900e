// One tenant process: its socket, its buffers, its ranks. This object owns all state of the process
// and shares none with other sessions.
//
//   kGreeting ──Hello──► kOpen ──process exited, or violated the protocol──► kClosing
//       ──all ranks released, then all buffers removed, some per turn──► kClosed
//
// OWNER: the Frontend. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_SESSION_H_
#define MCCS_SERVICE_FRONTEND_SESSION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/shared_region.h"
#include "proto/daemon_state.pb.h"
#include "proto/shim_control.h"
#include "service/communicator/communicator_table.h"
#include "service/communicator/membership/id_keys.h"
#include "service/counters.h"
#include "service/frontend/awaited_stops.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/buffer_releases.h"
#include "service/frontend/process_gpus.h"
#include "service/frontend/rank_slot.h"
#include "service/frontend/tenant_channel.h"
#include "service/frontend/turn_budget.h"
#include "service/host_budget.h"
#include "service/tenant_ledger.h"

namespace mccs {

// The parts of the daemon that sessions use. LIFETIME: outlives them.
struct SessionEnvironment {
  CommunicatorTable* communicators = nullptr;
  Rendezvous* rendezvous = nullptr;
  Device* device = nullptr;
  bool wants_dma_bufs = false;  // of memory on GPUs, for NICs
  BufferQuota* buffer_quota = nullptr;
  TenantLedger* ledger = nullptr;  // null: no quotas
  HostBudget* budget = nullptr;    // null: not limited
  // Processes whose tenant no operator has named. Another thread may change it. Null: no.
  const std::atomic<bool>* denies_unknown = nullptr;
  const Clock* clock = nullptr;
  Log* log = nullptr;
  LimitedWarnings* warnings = nullptr;
  DaemonCounters* counters = nullptr;  // null: not counted
  Endpoint endpoint;                   // where peers reach this daemon: written into unique ids
  const IdKeys* id_keys = nullptr;     // sign and check unique ids
  // Makes this daemon the rendezvous of an id derived from NCCL_COMM_ID.
  std::function<absl::Status(const wire::UniqueId&, const std::string& tenant,
                             std::shared_ptr<TenantResources> budget)>
      listen_for_environment_id;
};

class Session {
 public:
  Session(SessionId id, const SessionEnvironment& environment,
          std::unique_ptr<TenantChannel> channel);
  ~Session();

  // Counts the process; call once, before Poll. kResourceExhausted: its tenant or this host has too
  // many. The process then gets this answer to its Hello, and the session must be destroyed.
  absl::Status TakeShares();

  // Handles messages and newly posted work, as far as `budget` allows; the rest waits for the next
  // turn. Returns true if it made progress or work waits.
  bool Poll(TurnBudget& budget);

  // Poll would do nothing.
  bool IsQuiet() const;

  // The engine is about to sleep: from now on the shim rings the doorbell. Returns true if there is
  // work: do not sleep.
  bool PrepareSleep();
  void EndSleep();

  // While closing: ends one of the ranks. Returns false if none is left. Each takes most of a
  // millisecond with all its consequences, so the Frontend limits their number per turn.
  bool EndNextRank();

  // Destroys `token` when no kernel of the process has the region mapped any more.
  void Withdraw(const Region& region, const std::shared_ptr<void>& token) {
    kernels_.Withdraw(region, token);
  }

  // From now on no kernel of the process counts as running.
  void EndKernels() { kernels_.End(); }

  bool closing() const { return state_ >= State::kClosing; }
  bool closed() const { return state_ == State::kClosed; }
  SessionId id() const { return id_; }
  // Describes the session for an operator, with at most kRanksPerStatePart ranks from handle
  // `first` on. Returns the first handle of the next part; 0: this is the last one.
  uint32_t WriteState(uint32_t first, state::Session* out) const;
  static constexpr int kRanksPerStatePart = 64;
  const TenantIdentity& identity() const { return channel_->identity(); }
  // For whom the daemon's limits count the process: TenantAccount::counted_as() when it connected.
  const std::string& counted_as() const { return counted_as_; }

 private:
  enum class State { kGreeting, kOpen, kClosing, kClosed };

  // An Estimate, answered when its plan is built.
  struct AwaitedEstimate {
    uint64_t request = 0;
    uint32_t handle = 0;  // `comm_handle` of the rank
    EstimatedCall call;
  };

  // ---- Requests: the table in session.cc has all of them ----------------------------------------

  // The result of a request. Nothing: its handler has answered it, or will.
  using Outcome = std::optional<absl::Status>;
  // A handler's argument besides its message: the slot of the rank that the message names, which is
  // in use; the message's first descriptor, which it may take.
  enum class Needs { kNothing, kRank, kDescriptor };
  // An error is answered now, a success later.
  static Outcome Later(const absl::Status& begun) {
    return begun.ok() ? std::nullopt : Outcome(begun);
  }
  struct Request;   // a row of the table
  struct Protocol;  // the table
  template <typename Message, typename Reply, Needs needs, auto handler>
  void Run(TenantMessage& received);

  // Whether the process may use the daemon; kPermissionDenied: its tenant is unknown.
  absl::Status CheckKnown() const;

  // All processes: the beginning.
  Outcome HandleHello(const wire::Hello& hello);
  wire::UniqueIdReply Signed(wire::UniqueId id) const;
  absl::StatusOr<wire::UniqueIdReply> HandleGetUniqueId(const wire::GetUniqueId& request);
  // Buffers (session_buffers.cc).
  Outcome HandleRegister(const wire::RegisterBuffer& request, MessageFds& fds);
  Outcome HandleRelease(const wire::ReleaseBuffer& request);
  absl::StatusOr<wire::RegisterReply> HandleReserve(const wire::ReserveRange& request);
  Outcome HandleMapChunk(const wire::MapChunk& request, MessageFds& fds);
  Outcome HandleUnmapChunks(const wire::UnmapChunks& request);
  Outcome HandleMemoryMapped(const wire::MemoryMapped& message);
  Outcome HandleMemoryUnmapped(const wire::MemoryUnmapped& message);
  Outcome HandleMemoryCopied(const wire::MemoryCopied& message);
  // Ranks: their begin, use and end (session_ranks.cc).
  Outcome HandleInit(const wire::CommInit& request);
  Outcome HandleSuspend(const wire::CommSuspend& request, RankSlot& slot);
  Outcome HandleGpuFailed(const wire::GpuFailed& message);
  // Sets message_waits_ if too many estimates wait.
  Outcome HandleEstimate(const wire::Estimate& request, RankSlot& slot);
  Outcome HandleCaptureWork(const wire::CaptureWork& request);
  Outcome HandleReleaseCapture(const wire::ReleaseCapture& request);
  Outcome HandleRegisterWindow(const wire::RegisterWindow& request, RankSlot& slot);
  Outcome HandleDeregisterWindow(const wire::DeregisterWindow& request);
  Outcome HandleAbort(const wire::CommAbort& request);
  Outcome HandleDestroy(const wire::CommDestroy& request);
  // Derived communicators (session_derived.cc).
  Outcome HandleSplit(const wire::CommSplit& request, RankSlot& slot);
  Outcome HandleShrink(const wire::CommShrink& request, RankSlot& slot);
  Outcome HandleGrow(const wire::CommGrow& request, RankSlot& slot);
  absl::StatusOr<wire::UniqueIdReply> HandleCommUniqueId(const wire::CommUniqueId& request,
                                                         RankSlot& slot);
  Outcome HandleRevoke(const wire::CommRevoke& request, RankSlot& slot);

  // ---- Turns ------------------------------------------------------------------------------------

  bool PollMessages(TurnBudget& budget);
  bool MayEndRank(const TenantMessage& message);
  // The rank whose CommInit had this number.
  std::map<uint32_t, RankSlot>::iterator FindByInit(uint64_t init_request);
  // The row of a message that passes the checks of all requests; otherwise the session must end.
  absl::StatusOr<const Request*> Check(const TenantMessage& message) const;
  void CloseDescriptors();
  bool PollDirty(TurnBudget& budget);
  bool PollMapped(TurnBudget& budget);
  bool PollReleases(TurnBudget& budget);
  bool PollStops(TurnBudget& budget);
  // In the order of the requests. Other messages of the process do not wait for them.
  bool PollEstimates(TurnBudget& budget);
  // Erases some of the released ranks; the others stay in free_.
  void EraseRanks(TurnBudget& budget);
  // Frees some memory of a failed or released rank. Returns true if nothing is left to free.
  static bool FreeSome(RankEndpoint& endpoint, TurnBudget& budget);
  void WakeRanks();
  // While closing, after the ranks.
  bool ReleaseBuffers(TurnBudget& budget);
  Outcome Await(const AwaitedStop& stop);
  bool HasStopped(const AwaitedStop& stop) const;
  // Returns true if no memory of failed calls is left at the ranks that it has checked.
  bool FreeSomeFailedCalls(TurnBudget& budget);
  // Counts extra_cost_.
  std::vector<RingUse> UsesOf(BufferId id);

  // ---- Ranks ------------------------------------------------------------------------------------

  // Sets name, timeouts and hints of the rank's communicator.
  static void SetOptions(const wire::CommOptions& options, JoinRequest* join);
  absl::StatusOr<JoinRequest> CheckInit(const wire::CommInit& request);
  // If the device runs plans by kernels: of the rank's GPU; else null.
  absl::StatusOr<GpuMappings*> KernelsOf(const JoinRequest& join);
  // The rank joins; AnswerInit will answer its request. On an error the caller answers.
  absl::Status Admit(const JoinRequest& join, uint64_t request);
  absl::Status JoinDerived(const RankSlot& parent, const DerivedRank& place,
                           const wire::CommOptions& options, uint64_t request);
  // The slot of a rank that is not leaving; otherwise the reason.
  absl::StatusOr<RankSlot*> UsableSlot(uint32_t handle);
  // Results of the rank of `parent`, a `comm_handle`.
  absl::Status JoinSplit(uint32_t parent, uint64_t request, const JoinRequest& join);
  void OnNotMember(uint32_t parent, uint64_t request, const absl::Status& why);
  // Returns false if the rank has a pending request of that number.
  bool AddPendingRequest(uint32_t parent, uint64_t request);
  void RemovePendingRequest(uint32_t parent, uint64_t request);
  // Reject one pending request of that rank, or all.
  void RejectPendingRequest(uint32_t parent, uint64_t request, const std::string& why);
  void RejectPendingRequests(uint32_t parent, const std::string& why);
  void AnswerInit(uint32_t handle, const absl::Status& status, CommId id);
  // Handles CommDestroy (kAfterPostedWork) and CommAbort (kAtOnce; it overtakes a destroy).
  Outcome EndRank(uint32_t handle, uint64_t request, const std::string& why,
                  Communicator::Leaving how);
  // False: see RankSlot::BeginLeave.
  bool Leave(uint32_t handle, const std::string& why, Communicator::Leaving how,
             std::optional<uint64_t> request = std::nullopt);
  void OnRankReleased(uint32_t handle);
  uint32_t FreeHandle() const;

  // ---- Answers ----------------------------------------------------------------------------------

  // Sends the answer to `request`. If that is impossible, the session ends in this turn or the
  // next.
  template <typename Reply>
  void Answer(uint64_t request, const absl::Status& status, Reply message = {},
              std::span<const int> fds = {}) {
    message.header = {.kind = Reply::kKind, .bytes = sizeof(Reply), .request = request};
    message.status = ToReply(status);
    EndOnError(channel_->Send(std::as_bytes(std::span(&message, 1)), fds));
  }
  static wire::ReplyStatus ToReply(const absl::Status& status);
  // Answers with OK what waited for an event, if the process can still receive it.
  void AnswerDone(uint64_t request) {
    if (state_ == State::kOpen) Answer<wire::Done>(request, absl::OkStatus());
  }
  void EndOnError(const absl::Status& error) {
    if (end_reason_.ok()) end_reason_ = error;
  }
  void Close();

  wire::SessionRegion& region() const {
    return *reinterpret_cast<wire::SessionRegion*>(memory_.data());
  }

  const SessionId id_;
  const SessionEnvironment& env_;
  std::unique_ptr<TenantChannel> channel_;
  const std::shared_ptr<TenantAccount> account_;  // null: no quotas
  const std::string counted_as_;
  const std::shared_ptr<TenantCounters> counters_;
  const GaugeShare counted_{counters_->sessions};
  State state_ = State::kGreeting;
  const std::shared_ptr<TenantResources> budget_;  // null: not limited
  BudgetShare process_{budget_, Resource::kProcesses};
  BudgetShare descriptors_{budget_, Resource::kDescriptors};  // of the connection
  BudgetShare region_share_{budget_, Resource::kMappings};    // for memory_
  SharedRegion memory_;
  BufferRegistry buffers_;
  ProcessGpus kernels_;
  std::map<uint32_t, RankSlot> ranks_;  // by `comm_handle`
  // All of ranks_, by the number of their CommInit: number, `comm_handle`. A hostile process may
  // use a number twice.
  std::set<std::pair<uint64_t, uint32_t>> inits_;
  std::vector<uint32_t> free_;  // handles of released ranks, which EraseRanks erases
  uint64_t last_serial_ = 0;
  // message_ waits for a turn in which a rank may end, or an estimate is answered.
  bool message_waits_ = false;
  uint32_t handles_ = 0;  // all handles below are in use, or in free_below_
  std::set<uint32_t> free_below_;
  // Undecided requests for derived communicators: `comm_handle` of the parent, request.
  std::set<std::pair<uint32_t, uint64_t>> pending_requests_;
  std::set<std::pair<uint64_t, uint32_t>> pending_by_number_;  // the same, request first
  AwaitedStops stops_;
  std::deque<AwaitedEstimate> estimates_;  // at most kMaxWaitingEstimates
  BufferReleases releases_{buffers_};
  uint32_t last_checked_ = 0;  // CommHandle; for FreeSomeFailedCalls
  uint32_t dirty_words_ = 0;   // words of the dirty bitmap that contain handles in use
  uint32_t next_dirty_ = 0;    // the word that PollDirty looks at first
  int extra_cost_ = 0;         // of the request being handled, besides that of its row
  TenantMessage message_;
  absl::Status end_reason_;   // why the session ends, or must end; OK: it goes on
  uint32_t next_to_end_ = 0;  // CommHandle; from kClosing on
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_SESSION_H_
