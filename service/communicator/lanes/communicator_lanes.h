// All lanes of one communicator: the message lanes, and one set of collective lanes for each epoch
// in use. Message lanes continue through a change of strategy; they move to the new addresses.
//
//          OpenNext          Adopt              the next Adopt       CloseOld
//   (none) ────────► next ─────────► current ───────────────► old ──────────► (closed)
//                      │ DropNext
//                      ▼
//                   (closed)
//
// A transition that the drawing does not show is kFailedPrecondition and changes nothing: the
// leader that requests it may be a tenant's own program.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks after Make.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_COMMUNICATOR_LANES_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_COMMUNICATOR_LANES_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/lanes/lane_set.h"

namespace mccs {

// Epoch of message lanes in a connection's preamble. Strategies start at epoch 1.
inline constexpr Epoch kMessagesEpoch{0};

class CommunicatorLanes {
 public:
  // Starts to open the lanes of `options.strategy`. kResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<CommunicatorLanes>> Make(const LaneSetOptions& options);

  // LIFETIME: until the CloseOld after the next Adopt.
  LaneSet& current() { return *current_; }
  const LaneSet& current() const { return *current_; }
  LaneSet& messages() { return *messages_; }

  // ---- Strategy changes ----

  // Starts to open lanes beside the current ones. kFailedPrecondition: next or old lanes exist.
  // kResourceExhausted: not enough memory for both sets.
  absl::Status OpenNext(const Strategy& strategy);
  bool has_next() const { return next_ != nullptr; }
  bool next_ready() const { return next_ != nullptr && next_->ready(); }
  // Why the next lanes cannot open; OK while they still can.
  const absl::Status& next_status() const { return next_status_; }
  absl::Status DropNext();
  // Makes the next lanes the current ones, and moves the message lanes to their addresses.
  absl::Status Adopt();
  // Returns true when all data of the old lanes has arrived at both ends. From then on, a broken
  // old lane is not an error.
  bool OldDrained();
  absl::Status CloseOld();
  // Moves the current lanes and the message lanes to the routes of `strategy` (LaneSet::MoveTo).
  // REQUIRES: it differs from the current one only in routes.
  void MoveTo(const Strategy& strategy);

  // ---- Rates ----

  // Applies to all lanes out of this host. Ignores an older revision. Lanes get gates with the
  // first limit, or when the host has priority classes.
  void SetRateLimits(const RateLimits& limits);
  // A lane in use has data to send, and its gate alone delays it.
  bool held() const;

  // ---- Turns of the engine ----

  // Takes an authenticated stream from a peer. Closes it if it does not name a lane of ours.
  void Accept(const Preamble& preamble, std::unique_ptr<Connection> connection);
  // The newest epoch that has lanes. A peer may already connect for a later one, because it learned
  // of that epoch first.
  Epoch newest_epoch() const {
    return next_ != nullptr ? std::max(current_epoch_, next_epoch_) : current_epoch_;
  }
  // Returns true if anything moved. An error concerns lanes in use.
  absl::StatusOr<bool> Poll();
  // Of all calls of Poll (turn_cost.h).
  int64_t cost() const { return cost_; }
  // As in LaneSet, for all lanes in use.
  bool drained() const;
  void MarkDeparted(HostIndex host);
  // Position of the next ReleaseLaneMemory call in the lanes in use; initially empty.
  struct MemoryReleaseCursor {
    size_t messages = 0;
    size_t current = 0;
  };
  LaneSet::MemoryRelease ReleaseLaneMemory(MemoryReleaseCursor* next);
  // The next time at which Poll has work even if nothing arrives. Never after Poll has failed,
  // because it would only return the same error.
  MonotonicNs NextDeadline() const;
  std::vector<agent::v1::Lane> Stats() const;
  // Highest rate of all current collective lanes together, in bit/s; 0: unknown.
  uint64_t rate_bps() const { return current_->rate_bps(); }
  // Calls `look` with each set and its name: "messages", "current", "next", "old".
  void ForEachSet(const std::function<void(const char* name, const LaneSet& set)>& look) const;

 private:
  explicit CommunicatorLanes(const LaneSetOptions& options) : options_(options) {}
  LaneSet* Find(Epoch epoch);
  // Applies the last limits, or an unlimited one, to all lanes and to those created later.
  void Gate();

  LaneSetOptions options_;  // for all sets, except the strategy
  Epoch current_epoch_;
  Epoch next_epoch_;
  Epoch old_epoch_;
  std::vector<HostIndex> departed_;
  std::unique_ptr<LaneSet> messages_;
  std::unique_ptr<LaneSet> current_;
  std::unique_ptr<LaneSet> next_;
  std::unique_ptr<LaneSet> old_;
  bool old_drained_ = false;
  bool lost_ = false;  // the last Poll found a lane in use broken
  int64_t cost_ = 0;
  std::optional<RateLimits> rate_limits_;
  bool gated_ = false;
  absl::Status next_status_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_COMMUNICATOR_LANES_H_
