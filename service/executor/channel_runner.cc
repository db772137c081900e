#include "service/executor/channel_runner.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

// IssueOrder takes rounds in groups of skew + 1; two groups in flight keep the lanes busy.
constexpr uint32_t kGroupsInFlight = 2;
// From here on, over all local ranks, outputs are larger than a core's caches.
constexpr uint64_t kLargeBytes = 8 << 20;
constexpr uint64_t kNoRound = ~uint64_t{0};

bool AllIn(Space space, const std::vector<Place>& places) {
  return !places.empty() && std::all_of(places.begin(), places.end(),
                                        [&](const Place& p) { return p.space == space; });
}

}  // namespace

// ---- The order of events ----------------------------------------------------------------------

void ChannelRunner::Start(const OperationBinding& binding, const Program& program) {
  MCCS_CHECK(done());
  const bool learnt = program_ == &program && skew_ == binding.skew;
  binding_ = &binding;
  program_ = &program;
  skew_ = binding.skew;
  rounds_ = binding.geometry->rounds(program.channel);
  oldest_round_ = 0;
  foreign_tag_.reset();
  wrong_length_ = absl::OkStatus();
  next_.reset();
  large_ = binding.bytes * binding.ranks.size() >= kLargeBytes;
  if (!learnt) LearnProgram();
  if (rounds_ == 0) return;
  std::fill(row_rounds_.begin(), row_rounds_.end(), kNoRound);
  order_.emplace(program, rounds_, skew_);
  if (resources_.send != nullptr) next_send_ = resources_.send->next();
}

absl::StatusOr<bool> ChannelRunner::Poll() {
  if (done()) return false;
  bool moved = Admit();
  moved |= PollReceives();
  if (foreign_tag_.has_value()) {
    return absl::InvalidArgumentError("a slice of another call arrived");
  }
  if (!wrong_length_.ok()) return wrong_length_;
  moved |= PollCombines();
  moved |= PollSends();
  moved |= PollAcknowledgements();
  moved |= RetireRounds();
  return moved;
}

// ---- Starting -----------------------------------------------------------------------------------

void ChannelRunner::LearnProgram() {
  const std::vector<Step>& steps = program_->steps;
  facts_.assign(steps.size(), StepFacts{});
  sources_per_row_ = destinations_per_row_ = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    StepFacts& facts = facts_[s];
    facts.source_base = sources_per_row_;
    facts.destination_base = destinations_per_row_;
    facts.staged = step.kind == StepKind::kSend && AllIn(Space::kStaged, step.pieces);
    facts.in_slot = step.kind == StepKind::kReceive && AllIn(Space::kReceived, step.pieces);
    for (const Combine& combine : step.combines) {
      sources_per_row_ += static_cast<uint32_t>(combine.sources.size());
      destinations_per_row_ += static_cast<uint32_t>(combine.destinations.size());
    }
    if (step.kind == StepKind::kReceive &&
        !facts.in_slot) {  // One copy per piece when it comes early.
      sources_per_row_ += static_cast<uint32_t>(step.pieces.size());
      destinations_per_row_ += static_cast<uint32_t>(step.pieces.size());
    }
  }
  for (const Step& step : steps) {
    std::vector<bool> read(steps.size(), false);
    for (const Combine& combine : step.combines) {
      for (const Place& p : combine.sources)
        read[p.index] = read[p.index] || p.space == Space::kReceived;
    }
    for (size_t s = 0; s < steps.size(); ++s) facts_[s].readers += read[s] ? 1 : 0;
  }
  rows_ = std::bit_ceil(kGroupsInFlight * (skew_ + 1));
  const uint32_t capacity = rows_ * static_cast<uint32_t>(steps.size());
  cells_.assign(capacity, Cell{});
  row_rounds_.assign(rows_, kNoRound);
  row_pending_.assign(rows_, 0);
  sources_.resize(rows_ * sources_per_row_);
  destinations_.resize(rows_ * destinations_per_row_);
  sends_.Reset(capacity);
  unacknowledged_.Reset(capacity);
  receives_.Reset(capacity);
  combines_.clear();
  combines_.reserve(capacity);
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
    switch (StepOf(ref).kind) {
      case StepKind::kSend:
        cell.slice = next_send_++;
        sends_.push(ref);
        break;
      case StepKind::kReceive:
        cell.slice = next_receive_++;
        receives_.push(ref);
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
    cell.mem_ops.of_owner = &mem_ops_in_flight_;
    cell.readers = facts_[s].readers;
  }
}

// ---- Receives -----------------------------------------------------------------------------------

bool ChannelRunner::PollReceives() {
  bool moved = false;
  const uint32_t window = std::min(receives_.size(), resources_.shape.slots);
  for (uint32_t i = 0; i < window && !foreign_tag_.has_value() && wrong_length_.ok(); ++i) {
    if (At(receives_.at(i)).state != State::kDone) moved |= PollReceive(receives_.at(i));
  }
  while (!receives_.empty() && At(receives_.front()).state == State::kDone) receives_.pop();
  return moved;
}

bool ChannelRunner::PollReceive(StepRef ref) {
  Cell& cell = At(ref);
  RecvLane& lane = *resources_.receive;
  if (cell.state == State::kRunning) return CopyFromSlot(ref);
  if (!facts_[ref.step].in_slot && cell.state == State::kWaiting) {
    // The destination may still be read by an earlier step: not to be written before that is done.
    if (!DependenciesDone(ref)) return false;
    receive_pieces_.clear();
    for (const Place& place : StepOf(ref).pieces) {
      receive_pieces_.push_back(
          {Address(ref, place), Elements(ref, place) * SizeOf(binding_->type)});
    }
    // Refused beyond the lane's window, which moves on when slots are released: asked again then.
    if (lane.Expect(*cell.slice, receive_pieces_, binding_->tag)) cell.state = State::kExpected;
  }
  const Landing landing = lane.Landed(*cell.slice);
  if (landing == Landing::kNotYet) return false;
  if (lane.Tag(*cell.slice) != binding_->tag) {
    foreign_tag_ = lane.Tag(*cell.slice);
    return true;
  }
  if (landing == Landing::kInSlot) {  // A direct landing had the length that was expected.
    wrong_length_ = CheckLength(ref);
    if (!wrong_length_.ok()) return true;
  }
  if (facts_[ref.step].in_slot) {
    cell.state = State::kDone;
    --row_pending_[ref.row];
    if (cell.readers == 0) lane.Release(*cell.slice);
    return true;
  }
  if (landing == Landing::kInSlot) {
    cell.state = State::kRunning;
    CopyFromSlot(ref);
    return true;
  }
  lane.Release(*cell.slice);
  cell.state = State::kDone;
  --row_pending_[ref.row];
  return true;
}

// Behind a slice that is too short its slot holds an earlier one.
absl::Status ChannelRunner::CheckLength(StepRef ref) const {
  const Step& step = program_->steps[ref.step];
  const SliceNumber slice = *cells_[ref.row * program_->steps.size() + ref.step].slice;
  const uint64_t due = PieceOffset(ref, ref.step, static_cast<uint16_t>(step.pieces.size()));
  const uint64_t came = resources_.receive->Bytes(slice);
  if (came == due) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "slice ", slice, " of channel ", program_->channel.value(), " came with ", came,
      " bytes, the plan says ", due,
      ": the sending host follows another plan; run the same release of mccsd on all hosts"));
}

// The slice came before its destination was known: one copy per piece.
bool ChannelRunner::CopyFromSlot(StepRef ref) {
  Cell& cell = At(ref);
  const Step& step = StepOf(ref);
  bool moved = false;
  MemSource* sources = &sources_[ref.row * sources_per_row_ + facts_[ref.step].source_base];
  std::byte** destinations =
      &destinations_[ref.row * destinations_per_row_ + facts_[ref.step].destination_base];
  while (cell.submitted < step.pieces.size()) {
    const uint16_t piece = cell.submitted;
    const Place& place = step.pieces[piece];
    const uint64_t elements = Elements(ref, place);
    if (elements > 0) {
      sources[piece] = {.address = resources_.receive->Slot(*cell.slice) +
                                   PieceOffset(ref, ref.step, piece)};
      destinations[piece] = Address(ref, place);
      const MemOp copy{.sources = {&sources[piece], 1},
                       .destinations = {&destinations[piece], 1},
                       .elements = elements,
                       .type = binding_->type};
      if (!cell.mem_ops.Submit(device_, copy)) return moved;
    }
    ++cell.submitted;
    moved = true;
  }
  if (cell.mem_ops.outstanding > 0) return moved;
  resources_.receive->Release(*cell.slice);
  cell.state = State::kDone;
  --row_pending_[ref.row];
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
  MemSource* sources = &sources_[ref.row * sources_per_row_ + facts_[ref.step].source_base];
  std::byte** destinations =
      &destinations_[ref.row * destinations_per_row_ + facts_[ref.step].destination_base];
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
    if (copies && address == sources[0].address) continue;  // In place: already there.
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

// On one host an output is final: nobody sends it on. In a large operation nobody reads it soon
// either, and written past the caches it does not have to be read before.
bool ChannelRunner::MayStream(std::span<const MemSource> sources,
                              std::span<std::byte* const> destinations) const {
  if (!large_ || resources_.send != nullptr) return false;
  return std::none_of(sources.begin(), sources.end(), [&](const MemSource& source) {
    return std::find(destinations.begin(), destinations.end(), source.address) !=
           destinations.end();
  });
}

void ChannelRunner::FinishCombine(StepRef ref) {
  At(ref).state = State::kDone;
  --row_pending_[ref.row];
  // Give back the receive slots that this step was the last to read.
  for (uint16_t s = 0; s < program_->steps.size(); ++s) {
    if (!facts_[s].in_slot) continue;
    bool read = false;
    for (const Combine& combine : StepOf(ref).combines) {
      for (const Place& p : combine.sources) read |= p.space == Space::kReceived && p.index == s;
    }
    Cell& receive = At(ref.row, s);
    if (read && --receive.readers == 0) resources_.receive->Release(*receive.slice);
  }
}

// ---- Sends --------------------------------------------------------------------------------------

bool ChannelRunner::PollSends() {
  bool moved = false;
  while (!sends_.empty()) {
    const StepRef ref = sends_.front();
    if (!DependenciesDone(ref)) return moved;
    send_pieces_.clear();
    for (const Place& place : StepOf(ref).pieces) {
      const size_t bytes = Elements(ref, place) * SizeOf(binding_->type);
      if (bytes > 0) send_pieces_.push_back({Address(ref, place), bytes});
    }
    auto posted = resources_.send->Post(send_pieces_, binding_->tag);
    // The plan never makes a slice that is too long; but a peer may have broken the lane's
    // protocol, and that lane takes nothing any more. Whoever polls the lanes ends the communicator
    // for it.
    if (!posted.ok() || !posted->has_value()) return moved;
    MCCS_CHECK(**posted == *At(ref).slice);
    sends_.pop();
    moved = true;
    if (facts_[ref.step].staged) {  // The staging slot is ours and guarded by its number.
      At(ref).state = State::kDone;
      --row_pending_[ref.row];
    } else {
      At(ref).state = State::kRunning;
      unacknowledged_.push(ref);
    }
  }
  return moved;
}

bool ChannelRunner::PollAcknowledgements() {
  bool moved = false;
  while (!unacknowledged_.empty()) {
    Cell& cell = At(unacknowledged_.front());
    if (*cell.slice >= resources_.send->source_free()) return moved;
    cell.state = State::kDone;
    --row_pending_[unacknowledged_.front().row];
    unacknowledged_.pop();
    moved = true;
  }
  return moved;
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

// A combine that composes slices may write their staging slots once their former users are
// acknowledged; and it must know which slots: the sends are admitted.
bool ChannelRunner::StagingFree(StepRef ref) {
  for (const Combine& combine : StepOf(ref).combines) {
    for (const Place& place : combine.destinations) {
      if (place.space != Space::kStaged) continue;
      const std::optional<SliceNumber>& slice = At(ref.row, place.index).slice;
      if (!slice.has_value()) return false;
      if (*slice >= resources_.send->acknowledged() + resources_.shape.slots) return false;
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
      return resources_.receive->Slot(*At(ref.row, place.index).slice) +
             PieceOffset(ref, place.index, place.piece);
    case Space::kStaged:
      return resources_.staging.data +
             (*At(ref.row, place.index).slice % resources_.shape.slots) *
                 resources_.shape.slot_bytes +
             PieceOffset(ref, place.index, place.piece);
  }
  return nullptr;
}

}  // namespace mccs
