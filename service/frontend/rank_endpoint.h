// One rank of a tenant process: the shared region (work ring, fences, error line), read and written
// for the rank's communicator.
//
// The ring is the queue of posted work: a record is copied, checked and resolved when its turn
// comes. The endpoint stores the oldest collectives, the messages of their group, and captured
// graphs.
//
// OWNER: the Session. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_RANK_ENDPOINT_H_
#define MCCS_SERVICE_FRONTEND_RANK_ENDPOINT_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/shared_region.h"
#include "proto/daemon_state.pb.h"
#include "proto/shim_wire.h"
#include "service/communicator/communicator.h"
#include "service/communicator/links/rank_port.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/captured_groups.h"
#include "service/frontend/posted_call.h"
#include "service/frontend/rank_queues.h"
#include "service/frontend/rank_windows.h"

namespace mccs {

class RankEndpoint final : public RankPort {
 public:
  // The session's callbacks for the communicator's answers.
  struct Listener {
    std::function<void(const absl::Status&, CommId)> init_done;
    std::function<void()> released;
    std::function<absl::Status(uint64_t, const JoinRequest&)> join_split = {};
    std::function<void(uint64_t, const absl::Status&)> on_not_member = {};
  };

  // No call is executed before InitDone. `kernels`: the rank's process, if its kernels run plans;
  // else null. LIFETIME: `buffers` and `kernels` outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<RankEndpoint>> Make(Rank rank,
                                                            const BufferRegistry& buffers,
                                                            GpuAddressSpace* kernels,
                                                            Listener listener);

  absl::StatusOr<const PostedOperation*> Posted(size_t position) override;
  bool IsReady(size_t position) override;
  void Complete() override;
  absl::StatusOr<const PostedMessage*> TakeMessage() override;
  void CompleteMessage(const PostedMessage& message) override;
  bool AwaitsStreams() const override { return taken_messages_ < messages_.size(); }
  bool HasMessages() const override {
    return !messages_.empty() || captured_.runs().has_messages();
  }
  size_t ReplayableGroups() const override { return captured_.size(); }
  bool HasCaptured() const override { return captured_.runs().any(); }
  absl::StatusOr<bool> PollCaptured(CapturedBudget* budget) override {
    if (captured_.unused() && ended_messages_.empty()) return false;
    return PollUsed(budget);
  }
  uint64_t NextCaptured(uint64_t after) const override { return captured_.runs().NextKey(after); }
  const PostedOperation* Captured(uint64_t key) override { return captured_.runs().Front(key); }
  void CompleteCaptured(uint64_t key) override { captured_.runs().Complete(key); }
  uint64_t WindowChanges() const override { return windows_.changes(); }
  WindowView GetWindow(uint64_t number) const override { return windows_.GetView(number); }
  absl::StatusOr<WindowMemory> FindInWindow(const WindowPart& part) const override {
    absl::StatusOr<WindowMemory> memory = windows_.Find(part);
    if (memory.ok()) memory->process = queues_.process();
    return memory;
  }
  void InitDone(const absl::Status& status, CommId id, const RosterRanks& roster) override {
    caller_.ranks = roster.ranks;
    on_host_.assign(roster.on_host.begin(), roster.on_host.end());
    listener_.init_done(status, id);
  }
  GpuAddressSpace* kernels() override { return queues_.process(); }
  void SetKernelUse(const KernelUse& use) override {
    kernel_use_ = use;
    queues_.SetUse(use);
  }
  absl::Status JoinSplit(uint64_t request, const JoinRequest& join) override {
    return listener_.join_split(request, join);
  }
  void OnNotMember(uint64_t request, const absl::Status& why) override {
    listener_.on_not_member(request, why);
  }
  void ReportDeath(const absl::Status& why) override;
  void Fail(const absl::Status& why) override;
  void OnReleased() override;

  // No kernel of the rank runs any more.
  void EndKernels() { queues_.End(); }
  // None of this ready slot that waits for call #`sequence` or a later one. kInvalidArgument: no
  // such slot.
  absl::Status EndKernelsFrom(uint32_t ready_slot, uint64_t sequence) {
    return queues_.EndPosted(ready_slot, sequence);
  }

  const KernelUse& kernel_use() const { return kernel_use_; }
  CapturedGroups& captured() { return captured_; }
  RankWindows& windows() { return windows_; }

  // The number of records to take before no posted record names the buffer; 0: none names it.
  // Checks at most `budget` records and subtracts their number; any records beyond may name the
  // buffer.
  uint64_t LastUseOf(BufferId id, size_t* budget) const;
  // Also true when no more are taken: the rank's operations have failed, or it was released.
  bool HasTaken(uint64_t records) const {
    return taken_ >= records || failed_ || communicator == nullptr;
  }
  // Describes the rank for an operator.
  void WriteState(state::SessionRank* out) const;
  // Frees some memory and buffers of failed or released operations, once nothing uses them any
  // more. Returns true if nothing is left to free.
  bool FreeSome(CapturedBudget* budget);

  // The region's descriptor, to be sent to the shim; available once.
  UniqueFd TakeRegionFd() { return memory_.TakeFd(); }
  // The same for the KernelRegion; invalid if there is none.
  UniqueFd TakeKernelRegionFd() { return queues_.TakeFd(); }
  Rank rank() const { return caller_.rank; }
  // Of the communicator; 0 until InitDone.
  int ranks() const { return caller_.ranks; }
  // The communicator's ranks on this host; empty until InitDone.
  std::span<const Rank> on_host() const { return on_host_; }
  Communicator* communicator = nullptr;  // null after the release, or if it never joined

 private:
  struct ReadyFence {
    uint32_t slot = 0;
    uint64_t value = 0;
    uint64_t sequence = 0;  // of the first call that waits for it
  };
  struct Collective : ResolvedCollective {
    uint64_t sequence = 0;  // of the call
  };

  RankEndpoint(Rank rank, const BufferRegistry& buffers, Listener listener, SharedRegion memory,
               RankQueues queues);
  wire::CommRegion& region() const { return *reinterpret_cast<wire::CommRegion*>(memory_.data()); }
  // Takes records until there are `collectives`, or up to the end of the group, or to the first
  // record that has to wait for all calls taken so far; none after an invalid one, whose error is
  // record_error_ from then on.
  void Advance(size_t collectives);
  absl::Status TakeRecords(size_t collectives);
  absl::StatusOr<bool> TakeRecord(wire::WorkRecord* record);
  // The next record begins a group that may not run beside the calls taken so far.
  bool MustWait(const wire::WorkRecord& record) const;
  Collective& At(size_t position) {
    return collectives_[(first_collective_ + position) % collectives_.size()];
  }
  // The streams have reached all calls up to this one.
  bool HaveReached(uint64_t sequence);
  absl::Status AddFence(const wire::WorkRecord& record);
  absl::Status Accept(const wire::WorkRecord& record);
  absl::Status Resolve(const wire::WorkRecord& record);
  absl::StatusOr<bool> PollUsed(CapturedBudget* budget);
  // Writes the done word if all messages posted so far are complete.
  void SignalIfDone();
  // Removes all messages; FreeMessages frees many of them later, and returns true if none is left.
  void EndMessages();
  bool FreeMessages(CapturedBudget* budget);
  void DropCollectives();
  // Writes the first error of this rank to the region.
  void WriteError(const absl::Status& why, bool accepts_calls);

  CallingRank caller_;
  std::vector<Rank> on_host_;
  const BufferRegistry& buffers_;
  const Listener listener_;
  SharedRegion memory_;
  RankQueues queues_;
  KernelUse kernel_use_;

  // Private copies, because the tenant can write to the region.
  uint64_t taken_ = 0;       // records
  uint64_t sequence_ = 0;    // of the last call taken
  bool group_open_ = false;  // more records of its group follow
  absl::Status
      record_error_;  // the error of an invalid record, which was still taken from the ring
  // A ring of incomplete collectives, oldest first.
  std::vector<Collective> collectives_;
  size_t first_collective_ = 0;
  size_t collective_count_ = 0;
  std::deque<ResolvedMessage> messages_;  // of the group of the collectives; addresses stay
  size_t taken_messages_ = 0;
  size_t complete_messages_ = 0;
  std::vector<std::deque<ResolvedMessage>> ended_messages_;  // to be freed
  bool failed_ = false;
  bool error_written_ = false;  // the region's error message, which is final
  // For which the calls taken so far, or the next one, wait. In the order of the calls.
  std::vector<ReadyFence> fences_;
  CapturedGroups captured_;
  RankWindows windows_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_RANK_ENDPOINT_H_
