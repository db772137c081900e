// The replays of one rank's captured groups: which calls are next, and their buffers.
//
// clang-format off
//              Begin                    Resolve                     all calls are complete
//   idle ─────────────────► resolving ────────────► running ───────────────────────────────► idle
// clang-format on
//
// One group at a time is resolved, some calls per turn: a tenant chooses how many calls a group
// has, and how many groups its streams reach at once. A group holds the buffers of its calls from
// then until the calls are complete.
//
// A slot has at most one running group, so a rank has at most kCapturedSlots.
//
// OWNER: the CapturedGroups. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_CAPTURED_RUNS_H_
#define MCCS_SERVICE_FRONTEND_CAPTURED_RUNS_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/pieces.h"
#include "proto/shim_wire.h"
#include "service/communicator/links/captured_budget.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/posted_call.h"
#include "service/frontend/rank_queues.h"

namespace mccs {

// The slot by which one stream of a group reports that it has reached the group.
struct CapturedPlace {
  uint32_t slot = 0;
  uint32_t group = 0;  // within the slot, from 1
};

struct CapturedGroup {
  uint64_t capture = 0;
  uint64_t serial = 0;  // of the capture: the tenant may use a number again
  std::vector<CapturedPlace> places;
  Pieces<wire::WorkRecord> calls;
  uint64_t first_key = 0;  // of its collectives
  size_t collectives = 0;
};

class CapturedRuns {
 public:
  // LIFETIME: all of them outlive this.
  CapturedRuns(const CallingRank& caller, const BufferRegistry& buffers, wire::CommRegion& region,
               RankQueues& queues)
      : caller_(caller), buffers_(buffers), region_(region), queues_(queues) {}

  // Whether the buffers of the call are registered. It does not hold them. REQUIRES: CheckCall
  // returned OK.
  absl::Status CheckBuffers(const wire::WorkRecord& call) const;

  // The streams have reached the group. kFailedPrecondition: one of its slots has a running group.
  // REQUIRES: no group is being resolved. LIFETIME: `group` until it is resolved.
  absl::Status Begin(const CapturedGroup& group);
  // Goes on with the group that is being resolved, if any. kInvalidArgument: a buffer of it was
  // freed.
  absl::Status Resolve(CapturedBudget* budget);
  bool resolving() const { return resolving_ != nullptr; }
  // Whether that group is of the capture with this serial.
  bool resolving(uint64_t serial) const { return resolving() && resolving_->serial == serial; }

  // Runs whose calls are not complete.
  bool any() const { return !runs_.empty(); }
  bool has_messages() const { return runs_with_messages_ > 0; }
  // The graphs of the capture with this serial exist no more: from now on its runs count as
  // released. Call once.
  void ReleaseCapture(uint64_t serial);
  size_t released() const { return released_; }
  size_t released_calls() const { return released_calls_; }

  // The smallest key above `after` of a collective that is next in its running group; 0: none.
  uint64_t NextKey(uint64_t after) const { return next_.empty() ? 0 : FindNextKey(after); }
  // Null: the group has not reached it. LIFETIME: until Complete, or Drop.
  const PostedOperation* Front(uint64_t key) const;
  // REQUIRES: Front returned a call.
  void Complete(uint64_t key);

  // The next message of a running group, each once; null: none. LIFETIME: as for Front.
  const PostedMessage* TakeMessage() { return untaken_.empty() ? nullptr : TakeUntaken(); }
  // Returns false if the message is not from a captured group.
  bool CompleteMessage(const PostedMessage& message) {
    const auto& resolved = static_cast<const ResolvedMessage&>(message);
    if (!resolved.captured) return false;
    Complete(static_cast<const Message&>(resolved));  // may free it
    return true;
  }

  // Ends all runs, whose calls are not used any more. FreeSome frees their memory and buffers.
  void Drop();
  // Returns true if nothing is left to free.
  bool FreeSome(CapturedBudget* budget);

 private:
  struct Run;
  struct Message : ResolvedMessage {
    Run* run = nullptr;
    size_t position = 0;  // among the run's messages
  };
  struct Run {
    std::list<Run>::iterator self;
    const CapturedGroup* group = nullptr;  // null: it is resolved
    uint64_t serial = 0;                   // of the capture
    size_t calls = 0;
    std::vector<CapturedPlace> places;
    uint64_t first_key = 0;
    bool released = false;

    size_t resolved = 0;  // calls
    Pieces<ResolvedCollective> collectives;
    Pieces<Message> messages;
    std::vector<size_t> open_messages;  // by piece
    size_t complete_collectives = 0;
    size_t taken_messages = 0;
    size_t complete_messages = 0;
  };
  struct Next {
    uint64_t key = 0;
    Run* run = nullptr;
  };

  absl::StatusOr<ResolvedCollective> ResolvedCollectiveOf(const wire::WorkRecord& call) const;
  absl::StatusOr<ResolvedMessage> ResolvedMessageOf(const wire::WorkRecord& call) const;
  absl::Status ResolveNext(Run& run) const;
  uint64_t FindNextKey(uint64_t after) const;
  const PostedMessage* TakeUntaken();
  void Complete(const Message& message);
  void Start(Run& run);
  void EndIfDone(Run& run);
  // The entry of `key`, or where it would be.
  std::vector<Next>::const_iterator FindNext(uint64_t key) const;

  const CallingRank& caller_;
  const BufferRegistry& buffers_;
  wire::CommRegion& region_;
  RankQueues& queues_;

  // Turns look into these, so they must not iterate over all runs.
  std::list<Run> runs_;
  Run* resolving_ = nullptr;
  std::bitset<wire::kCapturedSlots> slots_in_use_;
  std::vector<Next> next_;         // of incomplete collectives, by key
  std::vector<Run*> untaken_;      // those with messages to take, in the order of their start
  size_t runs_with_messages_ = 0;  // incomplete ones
  size_t released_ = 0;            // of runs_
  size_t released_calls_ = 0;
  std::list<Run> ended_;  // to be freed
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CAPTURED_RUNS_H_
