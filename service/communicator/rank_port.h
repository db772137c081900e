// One local rank, as its communicator sees it. The frontend implements it over the tenant's shared
// memory and socket; the simulator's tenants are served by the same code.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_
#define MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/call_options.h"
#include "proto/operation.h"

namespace mccs {

struct JoinRequest;

// Of a call, over all ranks. Beyond this a count times a size times the ranks could overflow; no
// machine has that memory.
inline constexpr uint64_t kMaxCallBytes = uint64_t{1} << 56;

// A collective call of this rank: checked, its buffers resolved to the daemon's addresses.
struct PostedOperation {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  ReduceOp redop = ReduceOp::kSum;
  Rank root;
  uint64_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t input_bytes = 0;   // of the rank's memory from `input` on; Bind reads no more
  uint64_t output_bytes = 0;  // likewise
  // kPreMulSum: this rank's factor, a value of `type`; in the low bytes of `scalar`, or where
  // scalar_address says, at any alignment. Ranks may differ in it.
  uint64_t scalar = 0;
  const std::byte* scalar_address = nullptr;
  CallOptions options;  // a local matter: ranks may differ in them
};

// A send, receive or one-sided call of this rank, checked and resolved alike.
struct PostedMessage {
  OpKind kind = OpKind::kSend;  // of those that have a peer
  DataType type = DataType::kInt8;
  Rank peer;
  uint64_t count = 0;            // elements
  std::byte* address = nullptr;  // a receive writes there, others read; null without elements
  uint64_t address_bytes = 0;    // of the rank's memory from `address` on
  uint64_t window = 0;           // kPut: of the peer
  uint64_t window_offset = 0;    // likewise, bytes
  uint32_t signal = 0;           // of one-sided calls: SignalNumber
  uint64_t awaited = 0;          // kWaitSignal: signals

  uint64_t bytes() const { return count * SizeOf(type); }
};

// A window of a rank, as others ask for it.
struct WindowView {
  enum class State : uint8_t { kNotYet, kOpen, kGone };
  State state = State::kNotYet;
  uint64_t bytes = 0;  // kOpen
};

// A part of a window, and its place in the daemon's memory. LIFETIME: as long as it is held.
struct WindowPart {
  uint64_t number = 0;
  uint64_t offset = 0;  // bytes from the window's beginning
  uint64_t bytes = 0;
};
struct WindowMemory {
  std::byte* address = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> hold = {};
};

// What a rank posts comes in groups: the calls of one ncclGroupStart … ncclGroupEnd, or a call
// alone. Of a group, collectives are done one after the other, messages all together and beside
// them; the next group begins when all of it is done. So calls are in flight together exactly where
// NCCL promises it.
class RankPort {
 public:
  virtual ~RankPort() = default;

  // The oldest collective that is not complete; null when there is none. An error is a record that
  // cannot be served: the tenant's fault. It stays.
  // LIFETIME: the operation and its buffers until Complete(), or until LetGo().
  virtual absl::StatusOr<const PostedOperation*> Front() = 0;
  // The streams have reached the call: its inputs are there. REQUIRES: Front() gave a call.
  virtual bool FrontReady() = 0;
  // The call is done: the tenant's streams go on. REQUIRES: Front() gave a call.
  virtual void Complete() = 0;

  // The next message that the streams have reached, each once, in the order of the calls; null when
  // there is none. Errors as of Front().
  // LIFETIME: the message and its buffer until CompleteMessage(), or until LetGo().
  virtual absl::StatusOr<const PostedMessage*> TakeMessage() = 0;
  virtual void CompleteMessage(const PostedMessage& message) = 0;
  // Messages are posted that the streams have not reached.
  virtual bool AwaitsStreams() const = 0;
  // Messages are posted, taken or not, and not complete.
  virtual bool HasMessages() const = 0;

  // What was captured into CUDA graphs runs when a replay reaches it, beside what is posted. A
  // group of it is likewise done when all its collectives are, one after the other, and its
  // messages, which TakeMessage gives. Its collectives have keys from 1, the same on all ranks.
  // Groups whose graphs may be launched at any time, without a bell.
  virtual size_t ReplayableGroups() const = 0;
  // Streams wait for captured work that they have reached.
  virtual bool HasCaptured() const = 0;
  // The smallest key above `after` of a collective that the streams have reached and that is next
  // in its group; 0: there is none. Errors as of Front().
  virtual absl::StatusOr<uint64_t> NextCaptured(uint64_t after) = 0;
  // The collective of that key, if the streams have reached it and it is next; else null.
  // LIFETIME: until CompleteCaptured(), or until LetGo().
  virtual const PostedOperation* Captured(uint64_t key) = 0;
  virtual void CompleteCaptured(uint64_t key) = 0;

  // Memory that the rank opens to the other ranks' puts; its windows are numbered from 1 on. How
  // often windows have been opened or closed: what waits for one looks again when this has changed.
  virtual uint64_t WindowChanges() const = 0;
  virtual WindowView LookAtWindow(uint64_t number) const = 0;
  // kInvalidArgument: the part leaves the window. kFailedPrecondition: there is no such window any
  // more, or it has no memory.
  virtual absl::StatusOr<WindowMemory> FindInWindow(const WindowPart& part) const = 0;

  // Answers the rank's CommInit, once: OK when operations may be posted, in a communicator of
  // `ranks` ranks: what the roster says, and no rank by itself.
  virtual void InitDone(const absl::Status& status, CommId id, int ranks) = 0;
  // What came of the rank's request (Communicator::Split) for another communicator. TakeSeat: the
  // rank joins it now; an error: it cannot, and will hear so. NoSeat: it gets none, ok if it asked
  // for none. At most one of the two.
  virtual absl::Status TakeSeat(uint64_t request, const JoinRequest& join) = 0;
  virtual void NoSeat(uint64_t request, const absl::Status& why) = 0;
  // Reports to an idle rank that another one died. Calls are still accepted: those that do not need
  // the dead rank succeed.
  virtual void ReportDeath(const absl::Status& why) = 0;
  // Nothing more will succeed: reports why. Its streams stay blocked until the program ends the
  // communicator. Acts once.
  virtual void Fail(const absl::Status& why) = 0;
  // Ends what Communicator::Leave began: neither the port nor its buffers are used any more.
  virtual void LetGo() = 0;
};

// A local rank and what serves it. `port` is null once the rank has left.
struct LocalRank {
  Rank rank;
  RankPort* port = nullptr;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_
