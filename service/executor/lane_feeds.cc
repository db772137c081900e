#include "service/executor/lane_feeds.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

static_assert(kMaxPieces <= kMaxSlicePieces);

// ---- Sends --------------------------------------------------------------------------------------

void SendFeed::Begin(const LaneRun& run, const std::vector<uint16_t>& steps) {
  MCCS_CHECK(drained());
  run_ = &run;
  order_ = IssueOrder(*run.program, steps, run.rounds, run.skew);
}

void SendFeed::UpdateCounters() {
  counters_.source_free.Store(lane_.source_free());
  counters_.acknowledged.Store(lane_.acknowledged());
}

bool SendFeed::Send() {
  const SliceNumber before = next_;
  const SliceNumber posted = counters_.posted.Load();
  while (next_ < posted && lane_.has_room()) {
    GatherPieces(order_.current());
    const auto number = lane_.Post(pieces_, *run_->tag);
    // The plan never composes a slice that is too long. But after a peer broke the lane's protocol
    // the lane accepts nothing, and the owner of the lanes ends the communicator.
    if (!number.ok() || !number->has_value()) break;
    MCCS_CHECK(**number == next_);
    order_.Advance();
    ++next_;
  }
  if (next_ == before) return false;
  if (run_->stamps != nullptr) run_->stamps->OnSent();
  return true;
}

// A composed slice is contiguous in its staging slot.
void SendFeed::GatherPieces(const StepInstance& instance) {
  const Step& step = run_->program->steps[instance.step];
  pieces_.clear();
  if (step.pieces.front().space == Space::kStaged) {
    const size_t bytes = run_->memory.SliceBytes(instance.round, step);
    if (bytes == 0) return;
    pieces_.push_back(staging_.Part((next_ % shape_.slots) * shape_.slot_bytes, bytes));
    return;
  }
  for (const Place& place : step.pieces) {
    const RegionSpan piece = run_->memory.InBuffer(instance.round, place);
    if (piece.bytes > 0) pieces_.push_back(piece);
  }
}

// ---- Receives -----------------------------------------------------------------------------------

void ReceiveFeed::Begin(const LaneRun& run, const std::vector<uint16_t>& steps) {
  MCCS_CHECK(landing_.done());
  run_ = &run;
  landing_ = expecting_ = IssueOrder(*run.program, steps, run.rounds, run.skew);
  expected_ = landed_;
}

absl::Status ReceiveFeed::UpdateCounters() {
  const SliceNumber before = landed_;
  while (!landing_.done()) {
    const Landing landing = lane_.Landed(landed_);
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
  if (lane_.Tag(landed_) != *run_->tag) {
    mismatched_tag_ = lane_.Tag(landed_);
    return absl::InvalidArgumentError("received a slice of another call");
  }
  if (landing == Landing::kDirect) return absl::OkStatus();  // Expect compared the length
  // After a slice that is too short, its slot still contains data of an earlier one.
  const Step& step = run_->program->steps[instance.step];
  const uint64_t due = run_->memory.SliceBytes(instance.round, step);
  const uint64_t received = lane_.Bytes(landed_);
  if (received == due) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "slice ", landed_, " of channel ", run_->program->channel.value(), " has ", received,
      " bytes, the plan expects ", due,
      ": the sending host uses another plan; run the same release of mccsd on all hosts"));
}

bool ReceiveFeed::Receive() {
  bool moved = false;
  for (const SliceNumber end = counters_.released.Load(); released_ < end; ++released_) {
    lane_.Release(released_);
    moved = true;
  }
  const SliceNumber writable = counters_.writable.Load();
  while (expected_ < writable && Expect(expecting_.current())) {
    expecting_.Advance();
    ++expected_;
    moved = true;
  }
  return moved;
}

// Returns false if the lane does not accept the expectation yet: the slice is beyond its window,
// which moves when slots are released.
bool ReceiveFeed::Expect(const StepInstance& instance) {
  const Step& step = run_->program->steps[instance.step];
  if (expected_ < landed_ || step.pieces.front().space == Space::kReceived) return true;
  if (expected_ >= released_ + shape_.slots) return false;
  pieces_.clear();
  for (const Place& place : step.pieces) {
    pieces_.push_back(run_->memory.InBuffer(instance.round, place));
  }
  // If some bytes have arrived already, the slice lands in its slot, and the program copies it.
  (void)lane_.Expect(expected_, pieces_, *run_->tag);
  return true;
}

}  // namespace mccs
