#include "service/executor/lane_feeds.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

// ---- Sends --------------------------------------------------------------------------------------

void SendFeed::Begin(const LaneRun& run, const std::vector<uint16_t>& steps) {
  MCCS_CHECK(drained());
  run_ = &run;
  order_ = IssueOrder(*run.program, steps, run.rounds, run.skew);
  next_ = side_.turns.Enter(this, run.rounds * steps.size());
  counters_.posted.Store(next_);
}

void SendFeed::UpdateCounters() {
  counters_.source_free.Store(side_.lane.source_free());
  counters_.acknowledged.Store(side_.lane.acknowledged());
}

bool SendFeed::Send() {
  const SliceNumber before = next_;
  const SliceNumber posted = counters_.posted.Load();
  if (before == posted || !side_.turns.IsFirst(this)) return false;
  while (next_ < posted && side_.lane.has_room()) {
    const auto number = side_.lane.Post(SliceAt(order_.current()), *run_->tag);
    // The plan never composes a slice that is too long. But after a peer broke the lane's protocol
    // the lane accepts nothing, and the owner of the lanes ends the communicator.
    if (!number.ok() || !number->has_value()) break;
    MCCS_CHECK(**number == next_);
    order_.Advance();
    ++next_;
  }
  if (next_ == before) return false;
  if (order_.done()) side_.turns.Leave(this);
  if (run_->stamps != nullptr) run_->stamps->OnSent();
  return true;
}

std::optional<StallCause> SendFeed::WaitsFor() const {
  if (run_->rounds == 0) return std::nullopt;
  const bool has_unsent = next_ < counters_.posted.Load();
  if (!has_unsent && side_.lane.acknowledged() >= next_) return std::nullopt;
  return CauseOf(side_.lane);
}

// The memory of the next slice.
RegionSpan SendFeed::SliceAt(const StepInstance& instance) const {
  const Step& step = run_->program->steps[instance.step];
  if (step.pieces.front().space != Space::kStaged) {
    return run_->memory.InBuffer(instance.round, step);
  }
  return side_.staging.Part((next_ % shape_.staging_slots()) * shape_.slot_bytes,
                            run_->memory.SliceBytes(instance.round, step));
}

// ---- Receives -----------------------------------------------------------------------------------

void ReceiveFeed::Begin(const LaneRun& run, const std::vector<uint16_t>& steps) {
  MCCS_CHECK(done_);
  run_ = &run;
  landing_ = expecting_ = IssueOrder(*run.program, steps, run.rounds, run.skew);
  const uint64_t slices = run.rounds * steps.size();
  landed_ = expected_ = released_ = side_.turns.Enter(this, slices);
  end_ = released_ + slices;
  done_ = slices == 0;
  counters_.writable.Store(released_);
  counters_.released.Store(released_);
  counters_.landed.Store(released_);
}

absl::Status ReceiveFeed::UpdateCounters() {
  const SliceNumber before = landed_;
  while (!landing_.done()) {
    const Landing landing = side_.lane.Landed(landed_);
    if (landing == Landing::kNotYet) break;
    MCCS_RETURN_IF_ERROR(Check(landing_.current(), landing));
    counters_.in_slot[landed_ % shape_.slots] = landing == Landing::kInSlot;
    landing_.Advance();
    ++landed_;
  }
  if (landed_ == before) return absl::OkStatus();
  counters_.landed.Store(landed_);
  if (run_->stamps != nullptr) run_->stamps->OnLanded();
  return absl::OkStatus();
}

absl::Status ReceiveFeed::Check(const StepInstance& instance, Landing landing) {
  if (side_.lane.Tag(landed_) != *run_->tag) {
    mismatched_tag_ = side_.lane.Tag(landed_);
    return absl::InvalidArgumentError("received a slice of another call");
  }
  if (landing == Landing::kDirect) return absl::OkStatus();  // Expect compared the length
  // After a slice that is too short, its slot still contains data of an earlier one.
  const Step& step = run_->program->steps[instance.step];
  const uint64_t due = run_->memory.SliceBytes(instance.round, step);
  const uint64_t received = side_.lane.Bytes(landed_);
  if (received == due) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "slice ", landed_, " of channel ", run_->program->channel.value(), " has ", received,
      " bytes, the plan expects ", due,
      ": the sending host uses another plan; run the same release of mccsd on all hosts"));
}

bool ReceiveFeed::Receive() {
  bool moved = false;
  for (const SliceNumber read = counters_.released.Load(); released_ < read; ++released_) {
    side_.lane.Release(released_);
    moved = true;
  }
  if (side_.turns.IsFirst(this)) {
    side_.released = released_;
    done_ = released_ == end_;
    if (done_) side_.turns.Leave(this);
  }
  const SliceNumber writable = counters_.writable.Load();
  while (expected_ < writable && Expect(expecting_.current())) {
    expecting_.Advance();
    ++expected_;
    moved = true;
  }
  return moved;
}

std::optional<StallCause> ReceiveFeed::WaitsFor() const {
  const bool expects = landed_ < counters_.writable.Load();
  if (!expects || landed_ > counters_.released.Load()) return std::nullopt;
  return StallCause::kData;
}

// Returns false if the lane does not accept the expectation yet: the slice is beyond its window,
// which moves when slots are released.
bool ReceiveFeed::Expect(const StepInstance& instance) {
  const Step& step = run_->program->steps[instance.step];
  if (expected_ < landed_) return true;
  if (expected_ >= side_.released + shape_.slots) return false;
  if (step.pieces.front().space == Space::kReceived) {
    side_.lane.ExpectInSlot(expected_);
    return true;
  }
  // If some bytes have arrived already, the slice lands in its slot, and the program copies it.
  (void)side_.lane.Expect(expected_, run_->memory.InBuffer(instance.round, step), *run_->tag);
  return true;
}

}  // namespace mccs
