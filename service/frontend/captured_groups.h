// The calls of one rank captured into CUDA graphs: groups that are checked once, at their capture,
// and run each time the streams of a replay reach them.
//
// clang-format off
//   Add, record by record        the streams write "ready"         all calls are complete
//   ──────────────────────►  idle   ──────────────────────► running ──────────────────►  idle
//                              │ Release                      │ Release: removed at its end
//                              ▼                              ▼
// clang-format on
//
// A slot has at most one running group, so a rank has at most kCapturedSlots. A tenant can write
// the words at any time: a group of a slot whose group runs fails the rank.
//
// An idle group does not hold its buffers: a program may free them before its graphs, and a
// release waits for the last holder of a buffer. So each run resolves the buffers again, and a run
// after the release fails with an error message.
//
// Each collective has a key: its number among all collectives that this rank has captured. NCCL
// requires that all ranks capture the same collectives, so the keys match (decided_order.h).
//
// OWNER: the RankEndpoint. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_CAPTURED_GROUPS_H_
#define MCCS_SERVICE_FRONTEND_CAPTURED_GROUPS_H_

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/posted_call.h"
#include "service/frontend/rank_queues.h"

namespace mccs {

// Calls of all captured groups of one rank: enough for some hundred graphs of a large model.
inline constexpr size_t kMaxCapturedCalls = size_t{1} << 18;

class CapturedGroups {
 public:
  // LIFETIME: all of them outlive this.
  CapturedGroups(const CallingRank& caller, const BufferRegistry& buffers, wire::CommRegion& region,
                 RankQueues& queues)
      : caller_(caller), buffers_(buffers), region_(region), queues_(queues) {}

  // Adds the next record of a group in `capture`. Returns nothing if the group is incomplete; else
  // whether the whole group was accepted.
  std::optional<absl::Status> Add(uint64_t capture, const wire::WorkRecord& record);
  // The groups of the capture are not replayed any more.
  void Release(uint64_t capture);

  // Groups, also those that are released and still run.
  size_t size() const { return size_; }
  bool running() const { return running_ > 0; }
  bool has_messages() const { return !with_messages_.empty(); }

  // Starts the groups that their streams have reached. kInvalidArgument, kFailedPrecondition: the
  // tenant's error.
  absl::Status StartReached();

  // The smallest key above `after` of a collective that is next in its running group; 0: none.
  uint64_t NextKey(uint64_t after) const;
  // Null: the group has not reached it. LIFETIME: until Complete, or Drop.
  const PostedOperation* Front(uint64_t key) const;
  // REQUIRES: Front returned a call.
  void Complete(uint64_t key);

  // The next message of a running group, each once; null: none. LIFETIME: as for Front.
  const PostedMessage* TakeMessage();
  // Returns false if the message is not from a captured group.
  bool CompleteMessage(const PostedMessage& message);

  // Ends all groups and releases their memory.
  void Drop();

 private:
  // The slot by which one stream of the group reports that it has reached the group.
  struct Place {
    uint32_t slot = 0;
    uint32_t group = 0;  // within the slot, from 1
  };
  struct Group {
    uint64_t capture = 0;
    std::vector<Place> places;
    std::vector<wire::WorkRecord> calls;
    uint64_t first_key = 0;  // of its collectives

    bool running = false;
    bool released = false;
    // State of the current run:
    std::vector<ResolvedCollective> collectives;
    std::vector<ResolvedMessage> messages;
    size_t complete_collectives = 0;
    size_t taken_messages = 0;
    size_t complete_messages = 0;
  };
  struct Slot {
    uint64_t capture = 0;
    std::vector<Group*> groups;  // group n is at n - 1
  };
  struct Next {
    uint64_t key = 0;
    Group* group = nullptr;
  };
  using Groups = std::vector<std::unique_ptr<Group>>;

  absl::Status Accept(uint64_t capture, const wire::WorkRecord& record);
  absl::Status AddPlace(uint64_t capture, const wire::WorkRecord& record);
  // Finds and holds the calls' buffers.
  absl::Status Resolve(Group& group) const;
  static void ReleaseBuffers(Group& group);
  absl::Status Rejected(const absl::Status& why) const;
  absl::Status Commit();
  bool IsReached(const Group& group) const;
  absl::Status Start(Group& group);
  void EndIfDone(Group& group);
  void End(Group& group);
  // The entry of `key`, or where it would be.
  std::vector<Next>::const_iterator FindNext(uint64_t key) const;
  // The entry of the running group whose messages include that at `address`, or where it would be.
  std::vector<Group*>::const_iterator FindWithMessage(const PostedMessage* address) const;

  const CallingRank& caller_;
  const BufferRegistry& buffers_;
  wire::CommRegion& region_;
  RankQueues& queues_;

  std::unique_ptr<Group> pending_group_;  // incomplete: more records follow
  absl::Status record_error_;             // of the group in pending_group_
  uint64_t last_key_ = 0;
  size_t calls_ = 0;
  std::map<uint32_t, Slot> slots_;
  absl::flat_hash_map<uint64_t, Groups> groups_;  // by capture
  Groups released_;                               // and running
  size_t size_ = 0;                               // of both

  // Running groups. Turns look into these, so they must not iterate over all of them.
  size_t running_ = 0;
  std::bitset<wire::kCapturedSlots> slots_in_use_;
  std::vector<Next> next_;             // of incomplete collectives, by key
  std::vector<Group*> untaken_;        // those with messages to take, in the order of their start
  std::vector<Group*> with_messages_;  // those with incomplete messages, by their address
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CAPTURED_GROUPS_H_
