// One local rank, as its communicator sees it. The frontend implements it over the tenant's shared
// memory and socket, also in the simulator.
//
// THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_RANK_PORT_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_RANK_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/call_options.h"
#include "proto/operation.h"
#include "proto/shim_control.h"
#include "service/communicator/links/captured_budget.h"
#include "service/device/gpu/kernel_call.h"
#include "service/device/region.h"

namespace mccs {

struct JoinRequest;
class GpuAddressSpace;

// A collective call of this rank: validated, its buffers resolved to regions.
struct PostedOperation {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  ReduceOp redop = ReduceOp::kSum;
  Rank root;
  uint64_t count = 0;
  RegionSpan input;  // of the rank's memory; the call uses no more
  RegionSpan output;
  // kPreMulSum: this rank's factor, a value of `type`: in the low bytes of `scalar`, or in
  // scalar_memory (any alignment) if that has bytes. It may differ between ranks.
  uint64_t scalar = 0;
  RegionSpan scalar_memory = {};
  CallOptions options;  // local: may differ between ranks
  // The rank's kernel, if kernels run plans.
  KernelCall kernel = {};
};

// A send, receive or one-sided call of this rank, validated and resolved likewise.
struct PostedMessage {
  OpKind kind = OpKind::kSend;  // a kind that has a peer
  DataType type = DataType::kInt8;
  Rank peer;
  uint64_t count = 0;          // elements
  RegionSpan memory;           // written by a receive, read otherwise; empty if count is 0
  uint64_t window = 0;         // kPut: number of the peer's RMA window
  uint64_t window_offset = 0;  // kPut: in bytes
  uint32_t signal = 0;         // one-sided calls: SignalNumber
  uint64_t awaited = 0;        // kWaitSignal: number of signals
  // The rank's kernel, if it can copy the message: it reaches the other ranks.
  KernelCall kernel = {};

  uint64_t bytes() const { return count * SizeOf(type); }
};

// State of a rank's RMA window, for other ranks.
struct WindowView {
  enum class State : uint8_t { kNotYet, kOpen, kGone };
  State state = State::kNotYet;
  uint64_t bytes = 0;  // kOpen
};

// A part of an RMA window, and its memory in the daemon. LIFETIME: while `hold` is held.
struct WindowPart {
  uint64_t number = 0;
  uint64_t offset = 0;  // bytes from the start of the window
  uint64_t bytes = 0;
};
struct WindowMemory {
  RegionSpan memory;
  // The rank's process, which copies into memory that the daemon cannot write; null: there is none.
  GpuAddressSpace* process = nullptr;
  std::shared_ptr<const void> hold = {};
};

// A rank posts work in groups: the calls between ncclGroupStart and ncclGroupEnd, or a single call.
// Collectives start in the order of the calls. A single call may start while older collectives run,
// if neither accesses memory that the other writes; likewise the collectives of one group. A group
// of several calls, or with a message, starts when all older groups are complete; its messages run
// in parallel with its collectives.

// Collectives of a rank that may run at once.
inline constexpr size_t kMaxPostedAhead = 16;

// The collectives of a rank.
class CollectivePort {
 public:
  virtual ~CollectivePort() = default;

  // The incomplete collective at a position: 0 is the oldest. Null if it is not posted, or may not
  // run beside the older ones: from position kMaxPostedAhead on, or in another group of several
  // calls. An error is an invalid record, by the tenant's fault, and is permanent; it is reported
  // at position 0.
  // LIFETIME: the operation and its buffers until it is complete, or OnReleased().
  virtual absl::StatusOr<const PostedOperation*> Posted(size_t position) = 0;
  // The streams have reached the call and all older ones: its inputs are ready. REQUIRES:
  // Posted(position) returned a call.
  virtual bool IsReady(size_t position) = 0;
  // Completes the oldest call: the tenant's streams continue. REQUIRES: Posted(0) returned a call.
  virtual void Complete() = 0;

  absl::StatusOr<const PostedOperation*> Front() { return Posted(0); }
  bool FrontReady() { return IsReady(0); }

  // Work captured into CUDA graphs runs when a replay reaches it, in parallel with posted work. A
  // captured group is complete when all its collectives, one after the other, and its messages
  // (from TakeMessage) are. Captured collectives have keys from 1, the same on all ranks.
  //
  // Number of groups whose graphs may be launched at any time, without a doorbell.
  virtual size_t ReplayableGroups() const = 0;
  // Streams wait for captured work that PollCaptured has found.
  virtual bool HasCaptured() const = 0;
  // Finds captured work that the streams have reached, and prepares it to run; frees memory of work
  // that has ended. Returns true if it would go on with a larger budget, so that its next call is
  // due at once. Errors as for Front().
  virtual absl::StatusOr<bool> PollCaptured(CapturedBudget* budget) = 0;
  // The smallest key above `after` of a collective that is prepared and next in its group; 0: none.
  virtual uint64_t NextCaptured(uint64_t after) const = 0;
  // The collective with that key if it is prepared and next; else null.
  // LIFETIME: until CompleteCaptured() or OnReleased().
  virtual const PostedOperation* Captured(uint64_t key) = 0;
  virtual void CompleteCaptured(uint64_t key) = 0;
};

// The sends, receives and one-sided calls of a rank.
class MessagePort {
 public:
  virtual ~MessagePort() = default;

  // The next message that the streams have reached, each once, in the order of the calls; null if
  // there is none. Errors as for Front().
  // LIFETIME: the message and its buffer until CompleteMessage() or OnReleased().
  virtual absl::StatusOr<const PostedMessage*> TakeMessage() = 0;
  virtual void CompleteMessage(const PostedMessage& message) = 0;
  // Messages are posted that the streams have not reached.
  virtual bool AwaitsStreams() const = 0;
  // Messages are posted, taken or not, that are not complete.
  virtual bool HasMessages() const = 0;
};

// The RMA windows of a rank, numbered from 1.
class WindowPort {
 public:
  virtual ~WindowPort() = default;

  // How often windows were opened or closed: users that wait for a window check again when it
  // changes.
  virtual uint64_t WindowChanges() const = 0;
  virtual WindowView GetWindow(uint64_t number) const = 0;
  // kInvalidArgument: the part exceeds the window. kFailedPrecondition: the window is closed or has
  // no memory.
  virtual absl::StatusOr<WindowMemory> FindInWindow(const WindowPart& part) const = 0;
};

// The ranks of a communicator according to the roster.
struct RosterRanks {
  int ranks = 0;
  std::span<const Rank> on_host = {};  // in ascending order
};

// Events of a communicator that its rank is notified of.
class RankListener {
 public:
  virtual ~RankListener() = default;

  // Completes the rank's CommInit, once. OK: operations may be posted.
  virtual void InitDone(const absl::Status& status, CommId id, const RosterRanks& roster) = 0;
  // Result of the rank's request (Communicator::Split) for another communicator; at most one of the
  // two is called. JoinSplit: the rank joins it now; an error: the rank cannot, and is notified.
  // OnNotMember: it gets none; OK if it asked for none.
  virtual absl::Status JoinSplit(uint64_t request, const JoinRequest& join) = 0;
  virtual void OnNotMember(uint64_t request, const absl::Status& why) = 0;
  // Reports to an idle rank that another rank died. Calls are still accepted; those that do not
  // need the dead rank succeed.
  virtual void ReportDeath(const absl::Status& why) = 0;
  // Reports that nothing more will succeed, and why. Streams stay blocked until the program ends
  // the communicator. Only the first call has an effect.
  virtual void Fail(const absl::Status& why) = 0;
  // Completes Communicator::Leave: neither the port nor its buffers are used any more.
  virtual void OnReleased() = 0;
};

// How a rank takes part in the communicator's collectives if kernels run plans.
struct KernelUse {
  wire::KernelRole role = wire::KernelRole::kNone;
  // Why the buffers of collectives are staged in host memory; empty: they are not.
  std::string staged;
};

// The rank's GPU, if kernels of the tenant's processes run plans there.
class KernelPort {
 public:
  virtual ~KernelPort() = default;

  // The rank's process and GPU; null: no kernels run plans. LIFETIME: that of the port.
  virtual GpuAddressSpace* kernels() { return nullptr; }
  // Before InitDone.
  virtual void SetKernelUse(const KernelUse& /*use*/) {}
};

class RankPort : public CollectivePort,
                 public MessagePort,
                 public WindowPort,
                 public KernelPort,
                 public RankListener {};

// A local rank and its port; null when the rank has left.
struct LocalRank {
  Rank rank;
  RankPort* port = nullptr;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_RANK_PORT_H_
