// All lanes of one communicator: those for messages, which no strategy's change touches, and those
// of the collectives' channels, one set for each epoch that is in use.
//
//          OpenNext          Adopt              the next Adopt       CloseOld
//   (none) ────────► next ─────────► current ───────────────► old ──────────► (gone)
//                      │ DropNext
//                      ▼
//                   (gone)
//
// A call that the drawing does not have is kFailedPrecondition and changes nothing: the orders come
// from a leader that may be a tenant's own program.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks after Make.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_LANES_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_LANES_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/lane_set.h"

namespace mccs {

// The lanes for messages, in a connection's preamble: strategies have epochs from 1 on.
inline constexpr Epoch kMessagesEpoch{0};

class CommunicatorLanes {
 public:
  // Starts to open the lanes of `options.strategy`. kResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<CommunicatorLanes>> Make(const LaneSetOptions& options);

  // LIFETIME: until the CloseOld behind the next Adopt.
  LaneSet& current() { return *current_; }
  const LaneSet& current() const { return *current_; }
  LaneSet& messages() { return *messages_; }

  // ---- A change of strategy ----

  // Starts to open lanes beside those in use, where there are neither next nor old ones.
  // kResourceExhausted: no memory for both.
  absl::Status OpenNext(const Strategy& strategy);
  bool has_next() const { return next_ != nullptr; }
  bool next_ready() const { return next_ != nullptr && next_->ready(); }
  // Why the next ones cannot open; OK as long as they may.
  const absl::Status& next_status() const { return next_status_; }
  absl::Status DropNext();
  // The next ones are the current ones from here on.
  absl::Status Adopt();
  bool has_old() const { return old_ != nullptr; }
  // All that the old ones carried has arrived, here and at their other ends. From then on their
  // ends are no loss.
  bool OldDrained();
  absl::Status CloseOld();

  // ---- Rates ----

  // From now on, for all lanes out of this host. An older revision than the last one is nothing.
  // Lanes have gates from the first pace on that is not a free one, or when the host has classes.
  void SetPace(const Pace& pace);
  // A lane that is in use has something to send, and its gate alone holds it back.
  bool held() const;

  // ---- Turns of the engine ----

  // An authenticated stream that a peer opened for one of our lanes. Closed when it names none.
  void Accept(const Preamble& preamble, std::unique_ptr<Connection> connection);
  // The newest epoch that has lanes. Those of later ones may come to be here: their peer has heard
  // of it before us.
  Epoch newest_epoch() const {
    return next_ != nullptr ? std::max(current_epoch_, next_epoch_) : current_epoch_;
  }
  // True when anything moved. An error: of lanes that are in use.
  absl::StatusOr<bool> Poll();
  // As LaneSet's, for all that are in use.
  bool drained() const;
  void Excuse(HostIndex host);
  // Where the next call goes on, of all that are in use; empty at first.
  struct GiveBackPlace {
    size_t messages = 0;
    size_t current = 0;
  };
  LaneSet::GivenBack GiveBackMemory(GiveBackPlace* next);
  // When Poll has something to do though nothing arrives. Never, once it has returned an error: it
  // would return that again, and whoever lives on with it has nothing to do.
  MonotonicNs NextDeadline() const;
  std::vector<CommunicatorStats::Lane> Stats() const;
  // Of the lanes for collectives in use, together, at the most; 0: not known.
  uint64_t rate_bps() const { return current_->rate_bps(); }
  // With its name: "messages", "current", "next", "old".
  void ForEachSet(const std::function<void(const char* name, const LaneSet& set)>& look) const;

 private:
  explicit CommunicatorLanes(const LaneSetOptions& options) : options_(options) {}
  LaneSet* Find(Epoch epoch);
  // All lanes, those that come later included, go by the pace that was told last, or by a free one.
  void Gate();

  LaneSetOptions options_;  // of all sets, but for the strategy
  Epoch current_epoch_;
  Epoch next_epoch_;
  Epoch old_epoch_;
  std::vector<HostIndex> excused_;
  std::unique_ptr<LaneSet> messages_;
  std::unique_ptr<LaneSet> current_;
  std::unique_ptr<LaneSet> next_;
  std::unique_ptr<LaneSet> old_;
  bool old_drained_ = false;
  bool lost_ = false;  // some that are in use, as the last Poll said
  std::optional<Pace> pace_;
  bool gated_ = false;
  absl::Status next_status_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_LANES_H_
