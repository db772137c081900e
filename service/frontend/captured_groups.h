// The calls of one rank captured into CUDA graphs: groups that are checked once, at their capture,
// and run each time the streams of a replay reach them (captured_runs.h).
//
// clang-format off
//   Add, record by record        the streams write "ready"           all calls are complete
//   ──────────────────────►  idle   ──────────────────────► running ──────────────────►  idle
//                              │ Release                      │ Release: frees the slot at its end
//                              ▼                              ▼
// clang-format on
//
// A tenant can write the words at any time: a group of a slot whose group runs fails the rank.
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

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "service/frontend/buffer_registry.h"
#include "service/frontend/captured_runs.h"
#include "service/frontend/posted_call.h"
#include "service/frontend/rank_queues.h"

namespace mccs {

// Calls of all captured groups of one rank, and the further streams of its groups: enough for some
// hundred graphs of a large model.
inline constexpr size_t kMaxCapturedCalls = size_t{1} << 18;

class CapturedGroups {
 public:
  // LIFETIME: all of them outlive this.
  CapturedGroups(const CallingRank& caller, const BufferRegistry& buffers, wire::CommRegion& region,
                 RankQueues& queues)
      : caller_(caller), region_(region), runs_(caller, buffers, region, queues) {}

  // Adds the next record of a group in `capture`. Returns nothing if the group is incomplete; else
  // whether the whole group was accepted.
  std::optional<absl::Status> Add(uint64_t capture, const wire::WorkRecord& record);
  // The groups of the capture are not replayed any more. Returns their number.
  size_t Release(uint64_t capture);

  // Groups, also those that are released and still run.
  size_t size() const { return size_ + runs_.released(); }
  CapturedRuns& runs() { return runs_; }
  const CapturedRuns& runs() const { return runs_; }

  // Starts groups that their streams have reached, and frees what was released. Returns true if it
  // would go on with a larger budget, so that its next call is due at once. kInvalidArgument,
  // kFailedPrecondition: the tenant's error.
  absl::StatusOr<bool> Poll(CapturedBudget* budget);
  // Nothing was captured, so Poll would do nothing.
  bool unused() const { return !used_; }

  // Ends all groups, whose calls are not used any more. FreeSome frees their memory and buffers.
  void Drop();
  // Returns true if nothing is left to free.
  bool FreeSome(CapturedBudget* budget);

 private:
  struct Slot {
    uint64_t capture = 0;
    Pieces<const CapturedGroup*> groups;  // group n is at n - 1
  };
  struct Capture {
    Pieces<std::unique_ptr<CapturedGroup>> groups;
    size_t calls = 0;  // of kMaxCapturedCalls
    uint64_t serial = 0;
  };
  using Captures = std::map<uint64_t, Capture>;

  absl::Status Accept(uint64_t capture, const wire::WorkRecord& record);
  absl::Status AddPlace(uint64_t capture, const wire::WorkRecord& record);
  absl::Status Rejected(const absl::Status& why) const;
  absl::Status Commit();
  void DiscardPending();
  // Of kMaxCapturedCalls.
  static size_t CountOf(const CapturedGroup& group) {
    return group.calls.size() + group.places.size() - 1;
  }
  absl::Status StartIfReached(uint32_t index, const Slot& slot, CapturedBudget* budget);
  bool IsReached(const CapturedGroup& group) const;

  const CallingRank& caller_;
  wire::CommRegion& region_;
  CapturedRuns runs_;
  bool used_ = false;

  std::unique_ptr<CapturedGroup> pending_group_;  // incomplete: more records follow
  absl::Status record_error_;                     // of the group in pending_group_
  uint64_t last_key_ = 0;
  size_t calls_ = 0;  // of kMaxCapturedCalls, without those of released runs
  size_t size_ = 0;   // groups of captures_
  std::map<uint32_t, Slot> slots_;
  uint32_t next_slot_ = 0;  // at which Poll goes on
  Captures captures_;
  uint64_t last_serial_ = 0;   // of a capture
  std::list<Captures> ended_;  // to be freed
  std::list<Captures> kept_;   // likewise, when its group that is being resolved runs; at most one
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CAPTURED_GROUPS_H_
