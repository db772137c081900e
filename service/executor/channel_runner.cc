#include "service/executor/channel_runner.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// IssueOrder takes rounds in groups of skew + 1; two groups in flight keep the lanes busy.
constexpr uint32_t kGroupsInFlight = 2;
// Outputs of this size, over all local ranks, exceed a core's caches.
constexpr uint64_t kLargeBytes = 8 << 20;
constexpr uint64_t kNoRound = ~uint64_t{0};

static_assert(kMaxPieces <= kMaxSlicePieces);

}  // namespace

// ---- Progress -----------------------------------------------------------------------------------

absl::Status ChannelRunner::Start(const OperationBinding& binding, const Program& program) {
  MCCS_CHECK(done());
  const bool learnt = program_ == &program && skew_ == binding.skew;
  binding_ = &binding;
  skew_ = binding.skew;
  rounds_ = oldest_round_ = 0;
  mismatched_tag_.reset();
  wrong_length_ = absl::OkStatus();
  next_.reset();
  large_ = binding.bytes * binding.ranks.size() >= kLargeBytes;
  if (!learnt) MCCS_RETURN_IF_ERROR(PrepareProgram(program));
  if (program.steps.empty()) return absl::OkStatus();
  rounds_ = binding.geometry->rounds(program.channel);
  if (rounds_ == 0) return absl::OkStatus();
  std::fill(row_rounds_.begin(), row_rounds_.end(), kNoRound);
  order_.emplace(program, rounds_, skew_);
  lanes_.BeginRun();
  return absl::OkStatus();
}

absl::StatusOr<bool> ChannelRunner::Poll() {
  if (done()) return false;
  bool moved = Admit();
  for (ReceiveQueue* queue : lanes_.receives()) {
    moved |= PollReceives(*queue);
    if (mismatched_tag_.has_value()) {
      return absl::InvalidArgumentError("received a slice of another call");
    }
    if (!wrong_length_.ok()) return wrong_length_;
  }
  moved |= PollCombines();
  for (SendQueue* queue : lanes_.sends()) {
    moved |= PollSends(*queue);
    moved |= PollAcknowledgements(*queue);
  }
  moved |= RetireRounds();
  return moved;
}

// ---- Starting -----------------------------------------------------------------------------------

absl::Status ChannelRunner::PrepareProgram(const Program& program) {
  program_ = nullptr;
  rows_ = std::bit_ceil(kGroupsInFlight * (skew_ + 1));
  facts_ = DeriveFacts(program);
  MCCS_RETURN_IF_ERROR(lanes_.Use(program, rows_, facts_));
  const uint32_t capacity = rows_ * static_cast<uint32_t>(program.steps.size());
  cells_.assign(capacity, Cell{});
  row_rounds_.assign(rows_, kNoRound);
  row_pending_.assign(rows_, 0);
  sources_.resize(size_t{rows_} * facts_.sources);
  destinations_.resize(size_t{rows_} * facts_.destinations);
  combines_.clear();
  combines_.reserve(capacity);
  program_ = &program;
  return absl::OkStatus();
}

bool ChannelRunner::Admit() {
  bool moved = false;
  for (;;) {
    if (!next_.has_value()) {
      StepInstance instance;
      if (!order_->Next(&instance)) return moved;
      next_ = instance;
    }
    if (next_->round >= oldest_round_ + rows_) return moved;
    const StepRef ref{static_cast<uint32_t>(next_->round % rows_), next_->step};
    PrepareRow(ref.row, next_->round);
    Cell& cell = At(ref);
    cell.state = State::kWaiting;
    const StepFacts& facts = FactsOf(ref);
    switch (StepOf(ref).kind) {
      case StepKind::kSend:
        cell.slice = facts.send->next++;
        facts.send->waiting.push(ref);
        break;
      case StepKind::kReceive:
        cell.slice = facts.receive->next++;
        facts.receive->waiting.push(ref);
        break;
      case StepKind::kCombine:
        combines_.push_back(ref);
        break;
    }
    next_.reset();
    moved = true;
  }
}

void ChannelRunner::PrepareRow(uint32_t row, uint64_t round) {
  if (row_rounds_[row] == round) return;
  row_rounds_[row] = round;
  row_pending_[row] = static_cast<uint32_t>(program_->steps.size());
  for (uint16_t s = 0; s < program_->steps.size(); ++s) {
    Cell& cell = At(row, s);
    cell = Cell{};
    cell.mem_ops.owner_outstanding = &mem_ops_in_flight_;
    cell.readers = facts_.steps[s].readers;
  }
}

// ---- Receives -----------------------------------------------------------------------------------

bool ChannelRunner::PollReceives(ReceiveQueue& queue) {
  bool moved = false;
  const uint32_t window = std::min(queue.waiting.size(), shape_.slots);
  for (uint32_t i = 0; i < window && !mismatched_tag_.has_value() && wrong_length_.ok(); ++i) {
    const StepRef ref = queue.waiting.at(i);
    if (At(ref).state != State::kDone) moved |= PollReceive(ref);
  }
  while (!queue.waiting.empty() && At(queue.waiting.front()).state == State::kDone) {
    queue.waiting.pop();
  }
  return moved;
}

bool ChannelRunner::PollReceive(StepRef ref) {
  Cell& cell = At(ref);
  RecvLane& lane = *FactsOf(ref).receive->lane;
  if (cell.state == State::kRunning) return CopyFromSlot(ref);
  if (!FactsOf(ref).in_slot && cell.state == State::kWaiting) {
    // An earlier step may still read the destination: wait until it is done.
    if (!DependenciesDone(ref)) return false;
    receive_pieces_.clear();
    for (const Place& place : StepOf(ref).pieces) {
      receive_pieces_.push_back(
          {Address(ref, place), Elements(ref, place) * SizeOf(binding_->type)});
    }
    // Expect fails beyond the lane's credit, which grows when slots are released: retry then.
    if (lane.Expect(*cell.slice, receive_pieces_, binding_->tag)) cell.state = State::kExpected;
  }
  const Landing landing = lane.Landed(*cell.slice);
  if (landing == Landing::kNotYet) return false;
  if (lane.Tag(*cell.slice) != binding_->tag) {
    mismatched_tag_ = lane.Tag(*cell.slice);
    return true;
  }
  if (landing == Landing::kInSlot) {  // a direct landing had the expected length
    wrong_length_ = CheckLength(ref);
    if (!wrong_length_.ok()) return true;
  }
  if (FactsOf(ref).in_slot) {
    Done(ref);
    if (cell.readers == 0) lane.Release(*cell.slice);
    return true;
  }
  if (landing == Landing::kInSlot) {
    cell.state = State::kRunning;
    CopyFromSlot(ref);
    return true;
  }
  lane.Release(*cell.slice);
  Done(ref);
  return true;
}

// After a slice that is too short, its slot still contains data of an earlier one.
absl::Status ChannelRunner::CheckLength(StepRef ref) const {
  const Step& step = program_->steps[ref.step];
  const SliceNumber slice = *cells_[ref.row * program_->steps.size() + ref.step].slice;
  const uint64_t due = PieceOffset(ref, ref.step, static_cast<uint16_t>(step.pieces.size()));
  const uint64_t received = FactsOf(ref).receive->lane->Bytes(slice);
  if (received == due) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "slice ", slice, " of channel ", program_->channel.value(), " has ", received,
      " bytes, the plan expects ", due,
      ": the sending host uses another plan; run the same release of mccsd on all hosts"));
}

// The slice arrived before its destination was known: one copy per piece.
bool ChannelRunner::CopyFromSlot(StepRef ref) {
  Cell& cell = At(ref);
  const Step& step = StepOf(ref);
  RecvLane& lane = *FactsOf(ref).receive->lane;
  bool moved = false;
  MemSource* sources = &sources_[ref.row * facts_.sources + FactsOf(ref).source_base];
  std::byte** destinations =
      &destinations_[ref.row * facts_.destinations + FactsOf(ref).destination_base];
  const std::byte* from = lane.Slot(*cell.slice) + PieceOffset(ref, ref.step, cell.submitted);
  while (cell.submitted < step.pieces.size()) {
    const uint16_t piece = cell.submitted;
    const Place& place = step.pieces[piece];
    const uint64_t elements = Elements(ref, place);
    if (elements > 0) {
      sources[piece] = {.address = from};
      destinations[piece] = Address(ref, place);
      const MemOp copy{.sources = {&sources[piece], 1},
                       .destinations = {&destinations[piece], 1},
                       .elements = elements,
                       .type = binding_->type};
      if (!cell.mem_ops.Submit(device_, copy)) return moved;
      from += elements * SizeOf(binding_->type);
    }
    ++cell.submitted;
    moved = true;
  }
  if (cell.mem_ops.outstanding > 0) return moved;
  lane.Release(*cell.slice);
  Done(ref);
  return true;
}

// ---- Combines -----------------------------------------------------------------------------------

bool ChannelRunner::PollCombines() {
  bool moved = false;
  size_t kept = 0;
  for (size_t i = 0; i < combines_.size(); ++i) {
    const StepRef ref = combines_[i];
    moved |= PollCombine(ref);
    if (At(ref).state != State::kDone) combines_[kept++] = ref;
  }
  combines_.resize(kept);
  return moved;
}

bool ChannelRunner::PollCombine(StepRef ref) {
  Cell& cell = At(ref);
  if (cell.state == State::kWaiting) {
    if (!DependenciesDone(ref) || !StagingFree(ref)) return false;
    cell.state = State::kRunning;
  }
  const uint16_t before = cell.submitted;
  if (!RunCombines(ref, StepOf(ref).combines)) return cell.submitted != before;
  FinishCombine(ref);
  return true;
}

bool ChannelRunner::RunCombines(StepRef ref, std::span<const Combine> combines) {
  Cell& cell = At(ref);
  MemSource* sources = &sources_[ref.row * facts_.sources + FactsOf(ref).source_base];
  std::byte** destinations =
      &destinations_[ref.row * facts_.destinations + FactsOf(ref).destination_base];
  for (uint16_t c = 0; c < combines.size(); ++c) {
    if (c >= cell.submitted) {
      if (!SubmitCombine(ref, combines[c], sources, destinations)) return false;
      ++cell.submitted;
    }
    sources += combines[c].sources.size();
    destinations += combines[c].destinations.size();
  }
  return cell.mem_ops.outstanding == 0;
}

bool ChannelRunner::SubmitCombine(StepRef ref, const Combine& combine, MemSource* sources,
                                  std::byte** destinations) {
  const uint64_t elements = Elements(ref, combine.destinations.front());
  if (elements == 0) return true;
  const bool reduces = Reduces(binding_->plan->key.kind);
  for (size_t i = 0; i < combine.sources.size(); ++i) {
    const Place& place = combine.sources[i];
    sources[i] = {.address = Address(ref, place)};
    if (reduces && place.space == Space::kInput) {
      const RankMemory& rank = binding_->ranks[place.index];
      sources[i].scaled = rank.scaled;
      sources[i].scale_bits = rank.scale_bits;
      sources[i].scale_address = rank.scale_address;
    }
  }
  size_t count = 0;
  const bool copies = combine.sources.size() == 1 && !sources[0].scaled &&
                      !(combine.finish && binding_->finish != Finish::kNone);
  for (const Place& place : combine.destinations) {
    std::byte* address = Address(ref, place);
    if (copies && address == sources[0].address) continue;  // in place: already there
    destinations[count++] = address;
  }
  if (count == 0) return true;
  const MemOp op{.sources = {sources, combine.sources.size()},
                 .destinations = {destinations, count},
                 .elements = elements,
                 .type = binding_->type,
                 .op = binding_->op,
                 .finish = combine.finish ? binding_->finish : Finish::kNone,
                 .divisor = binding_->divisor,
                 .stream = MayStream({sources, combine.sources.size()}, {destinations, count})};
  return At(ref).mem_ops.Submit(device_, op);
}

// On one host an output is final and not sent. A large operation's output is not read soon, and
// streaming stores avoid reading it first.
bool ChannelRunner::MayStream(std::span<const MemSource> sources,
                              std::span<std::byte* const> destinations) const {
  if (!large_ || binding_->plan->crosses_hosts) return false;
  return std::none_of(sources.begin(), sources.end(), [&](const MemSource& source) {
    return std::find(destinations.begin(), destinations.end(), source.address) !=
           destinations.end();
  });
}

void ChannelRunner::FinishCombine(StepRef ref) {
  Done(ref);
  // Release the receive slots whose last reader was this step.
  for (uint16_t s : FactsOf(ref).reads) {
    Cell& receive = At(ref.row, s);
    if (--receive.readers == 0) facts_.steps[s].receive->lane->Release(*receive.slice);
  }
}

// ---- Sends --------------------------------------------------------------------------------------

bool ChannelRunner::PollSends(SendQueue& queue) {
  bool moved = false;
  while (!queue.waiting.empty() && queue.lane->has_room()) {
    const StepRef ref = queue.waiting.front();
    if (!DependenciesDone(ref)) return moved;
    send_pieces_.clear();
    for (const Place& place : StepOf(ref).pieces) {
      const size_t bytes = Elements(ref, place) * SizeOf(binding_->type);
      if (bytes > 0) send_pieces_.push_back({Address(ref, place), bytes});
    }
    auto posted = queue.lane->Post(send_pieces_, binding_->tag);
    // The plan never composes a slice that is too long. But after a peer broke the lane's protocol
    // the lane accepts nothing, and the owner of the lanes ends the communicator.
    if (!posted.ok() || !posted->has_value()) return moved;
    MCCS_CHECK(**posted == *At(ref).slice);
    queue.waiting.pop();
    moved = true;
    if (FactsOf(ref).staged) {  // its slice number guards the staging slot
      Done(ref);
    } else {
      At(ref).state = State::kRunning;
      queue.unacknowledged.push(ref);
    }
  }
  return moved;
}

bool ChannelRunner::PollAcknowledgements(SendQueue& queue) {
  bool moved = false;
  while (!queue.unacknowledged.empty()) {
    const StepRef ref = queue.unacknowledged.front();
    if (*At(ref).slice >= queue.lane->source_free()) return moved;
    Done(ref);
    queue.unacknowledged.pop();
    moved = true;
  }
  return moved;
}

void ChannelRunner::Done(StepRef ref) {
  At(ref).state = State::kDone;
  --row_pending_[ref.row];
}

bool ChannelRunner::RetireRounds() {
  bool moved = false;
  while (oldest_round_ < rounds_) {
    const uint32_t row = static_cast<uint32_t>(oldest_round_ % rows_);
    if (row_rounds_[row] != oldest_round_ || row_pending_[row] != 0) return moved;
    ++oldest_round_;
    moved = true;
  }
  return moved;
}

// ---- Dependencies and addresses -----------------------------------------------------------------

bool ChannelRunner::DependenciesDone(StepRef ref) {
  for (uint16_t before : StepOf(ref).after) {
    if (At(ref.row, before).state != State::kDone) return false;
  }
  return true;
}

// A combine that composes slices may write their staging slots when the former users are
// acknowledged. The slots are known when the sends are admitted.
bool ChannelRunner::StagingFree(StepRef ref) {
  for (const Combine& combine : StepOf(ref).combines) {
    for (const Place& place : combine.destinations) {
      if (place.space != Space::kStaged) continue;
      const std::optional<SliceNumber>& slice = At(ref.row, place.index).slice;
      if (!slice.has_value()) return false;
      const SendLane& lane = *facts_.steps[place.index].send->lane;
      if (*slice >= lane.acknowledged() + shape_.slots) return false;
    }
  }
  return true;
}

uint64_t ChannelRunner::Elements(StepRef ref, const Place& place) const {
  return binding_->geometry->Slice(program_->channel, RoundOf(ref.row), place.block).count;
}

uint64_t ChannelRunner::PieceOffset(StepRef ref, uint16_t step, uint16_t piece) const {
  uint64_t elements = 0;
  for (uint16_t p = 0; p < piece; ++p) elements += Elements(ref, program_->steps[step].pieces[p]);
  return elements * SizeOf(binding_->type);
}

std::byte* ChannelRunner::Address(StepRef ref, const Place& place) {
  const Plan& plan = *binding_->plan;
  const Geometry& geometry = *binding_->geometry;
  auto in_buffer = [&](bool blocked) {
    const uint64_t block = blocked ? geometry.BlockOffset(place.block) : 0;
    const Extent slice = geometry.Slice(program_->channel, RoundOf(ref.row), place.block);
    return (block + slice.begin) * SizeOf(binding_->type);
  };
  switch (place.space) {
    case Space::kInput:
      return const_cast<std::byte*>(binding_->ranks[place.index].input) +
             in_buffer(plan.input_blocked);
    case Space::kOutput:
      return binding_->ranks[place.index].output + in_buffer(plan.output_blocked);
    case Space::kReceived:
      return facts_.steps[place.index].receive->lane->Slot(*At(ref.row, place.index).slice) +
             PieceOffset(ref, place.index, place.piece);
    case Space::kStaged:
      return facts_.steps[place.index].send->staging +
             (*At(ref.row, place.index).slice % shape_.slots) * shape_.slot_bytes +
             PieceOffset(ref, place.index, place.piece);
  }
  return nullptr;
}

}  // namespace mccs
